"""How a worker gets rows: the owner's read, written claims, offers, quarantine, the fetcher."""
