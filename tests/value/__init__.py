"""Values, states and rules: no database, no thread."""
