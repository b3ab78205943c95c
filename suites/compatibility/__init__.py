"""Backward compatibility: what the API server makes of Services old and new, and what traffic policies that flip do."""
