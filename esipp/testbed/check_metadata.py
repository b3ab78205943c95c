"""Labels and annotations that checks set on their own Services, because they test them."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from esipp.base.labels import MANAGED_BY
from esipp.checks.api import ANNOTATION
from esipp.checks.catalog import all_checks
from esipp.testbed.manifests import OLD_ANNOTATIONS


@cache
def given_by_checks(part: str) -> Mapping[str, str]:
    """The keys of ``labels`` or ``annotations`` that checks set, each with the first check that does."""
    found: dict[str, str] = {}
    for check in all_checks():
        for body in check.subject.bodies:
            for key in _keys(body, part):
                found.setdefault(key, check.id)
        if part == "annotations" and any(path.service and path.service.old_form for path in check.subject.paths):
            for key in OLD_ANNOTATIONS:
                found.setdefault(key, check.id)
    return {key: check for key, check in found.items() if key not in MANAGED_BY}


def _keys(body: Any, part: str) -> Iterator[str]:
    """The keys of every such part of a request's body, and in paths that name one."""
    if isinstance(body, dict):
        for name, each in body.items():
            if name == part and isinstance(each, dict):
                yield from each
            elif part == "annotations" and str(name).startswith(ANNOTATION):
                yield str(name).removeprefix(ANNOTATION)
            else:
                yield from _keys(each, part)
    elif isinstance(body, list):
        for each in body:
            yield from _keys(each, part)
