"""Probers: processes that dial, wherever a client stands, and their protocol."""
