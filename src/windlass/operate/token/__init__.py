"""Access tokens: named credentials with a role."""
