"""Rolling items: when is one due again, and what is known of it."""

from __future__ import annotations

# An item has no arguments but its key.
PAYLOAD = "null"

# The `prune_at` of an item that was removed while it ran: its row goes when the run ends.
GOES = 1 << 62
