"""An import of many steps that is killed, and goes on where it stopped."""
