"""OpenTelemetry: what is traced, measured and carried in rows."""
