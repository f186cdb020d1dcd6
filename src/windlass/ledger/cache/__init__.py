"""The cache of the hot lane: Redis, or Valkey."""
