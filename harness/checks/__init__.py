"""make check and make lint."""
