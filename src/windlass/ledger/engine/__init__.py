"""How requests are executed: in groups, each in one transaction, also while rows are locked."""
