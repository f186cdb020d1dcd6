"""The SQL of alerts, of the audit log and of changes."""
