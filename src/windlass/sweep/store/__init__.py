"""The tables of sweeps: sweeps and rounds, ranges, failed items."""
