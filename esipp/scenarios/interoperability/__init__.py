"""Services beside each other, many at once, and by their names."""
