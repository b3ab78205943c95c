"""All breaks, one module each: how to apply and undo it, and which checks must notice it."""

import importlib
import pkgutil

from tests.broken.breakage import Break, Unnoticed


def _found() -> tuple[list[Break], list[Unnoticed]]:
    breaks: list[Break] = []
    unnoticed: list[Unnoticed] = []
    for module in sorted(pkgutil.walk_packages(__path__, f"{__name__}."), key=lambda each: each.name):
        if module.ispkg:
            continue
        what = importlib.import_module(module.name).BREAK
        (unnoticed if isinstance(what, Unnoticed) else breaks).append(what)
    return breaks, unnoticed


BREAKS, UNNOTICED = _found()
