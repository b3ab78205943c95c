"""Sibling path checks: pairs that differ in one thing and have the same requirement."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from esipp.checks.model import Backends, Path
from esipp.checks.path import PathCheck

AXES: Mapping[str, Callable[[Path], str]] = {
    "over": lambda path: path.protocol.value,
    "over family": lambda path: path.family.value,
    "for": lambda path: path.client.name,
    "at": lambda path: path.entry.slug,
    "at port": lambda path: path.port.label,
    "where the client claims": lambda path: path.claim.value,
    "with backend": lambda path: path.service.backends.value if path.service else "pod",
}
"""The axes, and the value that a path has on each."""


def but_for(axis: str, path_check: PathCheck) -> str:
    """All that makes a check but for its value on one axis, as a short digest: equal for siblings on that axis."""
    path = path_check.subject.path
    service = replace(path.service, backends=Backends.POD) if path.service else None
    values = tuple(value(path) for name, value in AXES.items() if name != axis)
    whole = repr(
        (
            *values,
            service,
            path.one_socket,
            sorted(path_check.subject.accept),
            path_check.subject.told,
            path_check.subject.spread,
        )
    )
    return hashlib.blake2s(whole.encode(), digest_size=6).hexdigest()
