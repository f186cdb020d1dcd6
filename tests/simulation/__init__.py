"""A seeded simulation: the real store and engine, and every order of events that chance can make."""
