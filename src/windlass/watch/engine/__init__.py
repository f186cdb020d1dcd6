"""Watching at work: rules find problems, alerts tell them, and channels deliver the alerts."""
