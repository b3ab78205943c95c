"""References as Allure links: issues, and all other documents."""

import re
from collections.abc import Iterable, Iterator

from esipp.checks.reference import Reference

ISSUE = re.compile(r"https://github\.com/(?!kubernetes/enhancements/)[^/]+/[^/]+/issues/\d+")


def links(references: Iterable[Reference]) -> Iterator[tuple[str, str, str]]:
    """Kind (``issue``, or ``tms`` for other documents), address and title of each reference with an address."""
    for each in references:
        if each.link:
            yield "issue" if ISSUE.fullmatch(each.link) else "tms", each.link, each.title
