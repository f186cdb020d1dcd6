"""What another system can bear, and a model of one."""
