"""What operators see of promises, and what a change would do to them."""
