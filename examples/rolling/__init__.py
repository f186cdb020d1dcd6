"""A catalogue that is kept fresh from a system that can be asked for one product at a time."""
