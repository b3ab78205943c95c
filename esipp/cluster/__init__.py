"""The API server: the one client, its errors, and what is read from it."""
