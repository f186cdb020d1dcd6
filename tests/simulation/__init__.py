"""A seeded simulation: the real store and engine, in every order of events chance can make."""
