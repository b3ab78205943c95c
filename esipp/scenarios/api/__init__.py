"""Requests to the API server about Services."""
