"""Events for those who listen to changes."""
