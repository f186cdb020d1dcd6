"""What other machines reach over HTTP."""
