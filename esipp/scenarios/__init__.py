"""The scenarios: each creates its objects, runs its actions, and records the evidence."""
