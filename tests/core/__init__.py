"""The kernel: what every database must do with a row of work, through the public API."""
