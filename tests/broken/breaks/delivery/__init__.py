"""Packets that reach a wrong destination, or not the right one."""
