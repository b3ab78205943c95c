"""Packets that go where they must not, or not where they must."""
