"""Downstreams: the systems that tasks call, what each kind takes, and their limits now."""
