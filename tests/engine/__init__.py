"""The conformance suite: what every database must do, through the public API."""
