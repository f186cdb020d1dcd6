"""What users and operators may see of sweeps and do with them."""
