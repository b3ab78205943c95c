"""Backward compatibility: API rules for old and new Services, and traffic while policies change."""
