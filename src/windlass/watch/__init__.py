"""What tells people how everything is doing: status, alerts, audit log, checks, changes."""
