"""All breaks: how to apply and undo each, and which checks must notice it.

A module has one, ``BREAK``, or a table of those that differ in data only, ``BREAKS``.
"""

import importlib
import pkgutil

from tests.broken.breakage import Break, Unnoticed


def _found() -> tuple[list[Break], list[Unnoticed]]:
    breaks: list[Break] = []
    unnoticed: list[Unnoticed] = []
    for module in sorted(pkgutil.walk_packages(__path__, f"{__name__}."), key=lambda each: each.name):
        if module.ispkg:
            continue
        found = importlib.import_module(module.name)
        for what in found.BREAKS if hasattr(found, "BREAKS") else (found.BREAK,):
            (unnoticed if isinstance(what, Unnoticed) else breaks).append(what)
    return breaks, unnoticed


BREAKS, UNNOTICED = _found()
