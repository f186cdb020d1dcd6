"""External systems that are ready to use: HTTP jobs, and processes on this machine."""
