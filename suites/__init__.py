"""What is claimed: read a suite as the test plan. Rows are in checks.py, one short test judges them."""
