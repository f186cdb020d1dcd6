"""Several databases as one."""
