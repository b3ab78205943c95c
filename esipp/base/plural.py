"""Counts in words: one row fails, two rows fail. Pure."""


def form(number: int, one: str, several: str = "") -> str:
    """The word that fits a number: ``one``, or ``several``, which ends with an s where nothing else is said."""
    return one if number == 1 else several or f"{one}s"


def counted(number: int, one: str, several: str = "") -> str:
    """A number and what it counts: ``1 row``, ``2 rows``; with both given ``1 row fails``, ``2 rows fail``."""
    return f"{number} {form(number, one, several)}"
