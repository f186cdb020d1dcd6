"""The commands about everything: status, checks, tables, alerts and the audit log."""
