"""Pictures of every page of the console, made of a shop that lives."""
