"""Repeated requests: a request that is sent again does nothing again."""
