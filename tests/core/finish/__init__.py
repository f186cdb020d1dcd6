"""Outcomes, retries, and how long ended rows stay."""
