"""The commands `windlass control` and `windlass run`."""
