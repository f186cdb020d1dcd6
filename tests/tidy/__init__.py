"""What holds the repository in shape: layers, size, names, docs."""
