"""How handlers run: what is in flight, the runners, their context and time-outs."""
