"""The rows of rolling items, how fresh they are, and triggers that follow a table."""
