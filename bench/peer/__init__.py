"""The systems that Windlass is measured against, one folder each."""
