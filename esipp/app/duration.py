"""Durations on the command line."""

import re

from esipp.base.errors import PreflightError


def read_duration(option: str, text: str) -> float:
    """The seconds of a duration such as ``10m``, ``90s`` or ``1h30m``.

    Args:
        option: whose value it is.
        text: the value.

    Raises:
        PreflightError: it is none.
    """
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text.strip())
    parts = found.groups() if found and text.strip() else ()
    seconds = sum(int(part) * size for part, size in zip(parts, (3600, 60, 1), strict=False) if part)
    if not seconds:
        raise PreflightError(f"{option} '{text}' is no time.", "use 10m, 90s or 1h30m.")
    return float(seconds)
