"""report.html: one page for people, rendered from the ledger. It loads nothing, and works without scripts too.

The page extends the one of ``report/rendering`` by what a script filters and opens: the checks and their evidence. The
other modules of this package make its data. Text of a ledger is escaped, and can never run: see the policy of the page.
"""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from esipp.base.document import Document, Link
from esipp.ledger.reading import RecordedRun
from esipp.report.html.embedded import embedded
from esipp.report.html.head import cluster_of, features_of, head_of
from esipp.report.html.legend import legend_of
from esipp.report.html.listing import suites_of
from esipp.report.html.marks import MARKS, WORDS, said_of
from esipp.report.html.trouble import instrument_of, missing_of, troubles_of
from esipp.report.rendering.html import inline, page
from esipp.report.sections import sections

HERE = Path(__file__).parent
SCRIPTS = ("page.js", "filters.js", "drawer.js", "way.js", "strip.js", "start.js")
"""The script, in the order of its parts."""


def render(run: RecordedRun) -> str:
    """The whole page."""
    head = head_of(run)
    return page(
        "report.html.j2",
        HERE,
        script=Markup(script_of_the_page()),  # noqa: S704 - our own file
        document=Document(head["title"]),
        run=run,
        head=head,
        suites=suites_of(run),
        troubles=troubles_of(run, run.qualified),
        instrument=instrument_of(run),
        known=missing_of(run, "known"),
        unsupported=missing_of(run, "unsupported"),
        sections=sections(run),
        features=features_of(run),
        cluster=cluster_of(run),
        legend=legend_of(run.header.get("samples")),
        data=_json(embedded(run)),
        marks=MARKS,
        words=WORDS,
        said_of=said_of,
        linked=lambda reference: inline(Link(reference.title, reference.link)),
    )


def script_of_the_page() -> str:
    """The whole script of the page."""
    return "\n".join(["'use strict';", *((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)])


def _json(data: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704
