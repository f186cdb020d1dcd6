"""The API routes for flows and templates."""
