"""What holds work back: switches, windows, rates, concurrency, breakers."""
