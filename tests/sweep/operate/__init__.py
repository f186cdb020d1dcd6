"""What people see of sweeps, and visits of single keys."""
