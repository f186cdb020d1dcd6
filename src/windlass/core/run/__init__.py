"""How handlers run: rows in flight, ready queues, runners, context, time-outs."""
