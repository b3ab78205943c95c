"""The commands: what a user types, what is done then, and what is printed."""
