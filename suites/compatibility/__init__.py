"""Backward compatibility: API rules for old and new Services, and traffic while policies change."""

TITLE = "Backward compatibility"
ORDER = 40
