"""How much another system can bear: what says that it is too much, and the limits that follow."""
