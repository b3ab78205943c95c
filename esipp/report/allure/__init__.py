"""Allure results, written by allure-pytest: during a run (live.py), or equal ones from its ledger (replay.py)."""

from esipp.report.allure.replay import write

__all__ = ["write"]
