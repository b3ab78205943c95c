"""Breaks a real kind cluster in one precise way at a time: did the right rows turn red, and no other?"""
