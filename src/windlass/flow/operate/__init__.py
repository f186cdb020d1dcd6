"""What users and operators do with flows: declare, start, show, change, and templates."""
