"""How runs end: outcomes are written in groups, one transaction for each."""
