"""The terminal: every command, as a person or a program meets it."""
