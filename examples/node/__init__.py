"""A program in Node that takes part in a control run over HTTP."""
