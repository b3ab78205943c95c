"""Allure results, written by allure-pytest: during a run (live.py) or from its ledger (replay.py), alike by both."""

from esipp.report.allure.replay import write

__all__ = ["write"]
