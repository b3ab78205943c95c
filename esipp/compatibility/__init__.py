"""Backward compatibility: see suites/compatibility."""
