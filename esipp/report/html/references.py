"""Links of references: only where the address follows from the reference for certain."""

import re
from collections.abc import Iterator

from markupsafe import Markup

KNOWN = (
    (re.compile(r"\bkubernetes/kubernetes#(\d+)"), "https://github.com/kubernetes/kubernetes/issues/{}"),
    (re.compile(r"\bKEP-(\d+)"), "https://github.com/kubernetes/enhancements/issues/{}"),  # a KEP is numbered by these
    (re.compile(r"\bRFC (\d+)"), "https://www.rfc-editor.org/rfc/rfc{}"),
)


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces, each with its address, or an empty one."""
    found = sorted(
        (match.start(), match.end(), url.format(match[1])) for known, url in KNOWN for match in known.finditer(text)
    )
    at = 0
    for start, end, url in found:
        if start > at:
            yield text[at:start], ""
        yield text[start:end], url
        at = end
    if at < len(text):
        yield text[at:], ""


def linked(text: str) -> Markup:
    """The text with its links."""
    link = Markup('<a href="{}" rel="noreferrer">{}</a>')
    return Markup().join(link.format(url, piece) if url else piece for piece, url in parts(text))
