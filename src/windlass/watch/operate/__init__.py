"""What an operator sees and does: status, alerts, the audit log, checks and changes."""
