"""Scenario: Services and their pods change while several kinds of clients send to them."""
