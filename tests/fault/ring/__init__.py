"""Workers that lose each other."""
