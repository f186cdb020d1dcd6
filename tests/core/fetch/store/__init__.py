"""The statements that get rows, and their plans."""
