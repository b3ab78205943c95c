"""The command line and the session that it starts."""
