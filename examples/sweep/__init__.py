"""A large table that is walked in ranges, round after round."""
