"""Probers, the processes that dial from each client's place, and their protocol."""
