"""Status, alerts, the audit log, and what changed."""
