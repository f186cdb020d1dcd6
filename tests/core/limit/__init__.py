"""What holds work back: switches, windows, rates and breakers."""
