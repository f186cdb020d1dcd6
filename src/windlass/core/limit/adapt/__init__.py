"""Downstreams that adapt: what workers see is added up, and one of them decides."""
