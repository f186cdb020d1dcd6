"""Where alerts go: signed webhooks, and everything that Apprise knows."""
