"""Counts in words: one check fails, two checks fail. Pure."""


def form(number: int, one: str, several: str = "") -> str:
    """The word that fits a number: ``one``, or ``several``, which ends with an s where nothing else is said."""
    return one if number == 1 else several or f"{one}s"


def counted(number: int, one: str, several: str = "") -> str:
    """A number and what it counts: ``1 check``, ``2 checks``; with both given ``1 check fails``, ``2 checks fail``."""
    return f"{number} {form(number, one, several)}"
