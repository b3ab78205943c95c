"""Allure results, written by allure-pytest: during a run (live.py), or equal ones from its ledger (replay.py)."""
