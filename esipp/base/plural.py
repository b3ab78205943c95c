"""Plural forms: 1 check fails, 2 checks fail. Pure."""


def form(number: int, one: str, several: str = "") -> str:
    """The form of a word for a number: ``one`` or ``several``, which defaults to ``one`` plus "s"."""
    return one if number == 1 else several or f"{one}s"


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its word: ``1 check``, ``2 checks``; with both forms ``1 check fails``, ``2 checks fail``."""
    return f"{number} {form(number, one, several)}"
