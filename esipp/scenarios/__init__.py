"""The experiments: each creates its objects, does something, and records the evidence."""
