"""What an operator may see and do, one module per noun. CLI and console call only this."""
