"""The statements of flows and their plans."""
