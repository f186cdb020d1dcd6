"""Tasks that other systems execute."""
