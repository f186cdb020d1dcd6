"""Control runs at work: the transactions on their rows, the blocks that hold them, plain calls."""
