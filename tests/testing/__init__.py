"""What users get for their own tests."""
