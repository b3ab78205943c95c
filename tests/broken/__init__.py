"""Breaks a real kind cluster in one precise way at a time: did the right checks turn red, and no other?"""
