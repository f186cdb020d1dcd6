"""OpenTelemetry: spans and metrics of what is enqueued and run, if the program wants them."""
