"""What operators see and do: how views type their fields, lists, and the audit log's words."""
