"""What is claimed: read a suite as the test plan. Checks are in checks.py, one short test judges them."""
