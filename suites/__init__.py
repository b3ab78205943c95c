"""Test suites as data: each suite is a test plan. checks.py has its checks, and one short test runs them."""
