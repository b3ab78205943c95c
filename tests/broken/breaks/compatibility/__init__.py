"""API objects that do not mean what they did."""
