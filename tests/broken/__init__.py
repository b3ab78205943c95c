"""Tests that break a kind cluster in one precise way at a time: only the right checks may turn red."""
