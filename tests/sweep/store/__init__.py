"""The statements of sweeps and their plans."""
