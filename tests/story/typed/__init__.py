"""The code of a user, and what type checkers say of it."""
