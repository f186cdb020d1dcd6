"""The statements of externals and their plans."""
