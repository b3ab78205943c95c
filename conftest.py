"""pytest's options and hooks for the suites in suites/ and for our own tests in tests/: see fixtures/plugin.py."""

pytest_plugins = ["fixtures.plugin"]
