"""How handlers run: what is in flight, context, time-outs, drain."""
