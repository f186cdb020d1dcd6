"""The ring: which worker owns which rows, and which joined and left."""
