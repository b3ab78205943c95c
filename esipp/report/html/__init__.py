"""report.html: one page for people, rendered from the ledger. It loads nothing, and works without scripts too.

The page extends the one of ``report/rendering`` by what a script filters and opens: the checks and their evidence. The
other modules of this package make its data. Text of a ledger is escaped, and can never run: see the policy of the page.
"""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from esipp.base.document import Document
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.trend import since_baseline
from esipp.report.html.embedded import embedded
from esipp.report.html.head import cluster_of, head_of
from esipp.report.html.legend import legend_of
from esipp.report.html.listing import suites_of
from esipp.report.html.marks import MARKS, WORDS, mark, said_of
from esipp.report.html.trouble import defects_of, failures_of, instrument_of, known_of, short, troubles_of, untested_of
from esipp.report.rendering.html import inline, page
from esipp.report.sections import sections

HERE = Path(__file__).parent
SCRIPTS = ("page.js", "filters.js", "drawer.js", "way.js", "strip.js", "start.js")
"""The script, in the order of its parts."""


def render(run: RecordedRun) -> str:
    """The whole page."""
    head, troubles = head_of(run), troubles_of(run, run.qualified)
    after = (untested_of(run), known_of(run), cluster_of(run), legend_of(run.header.get("samples")))
    return page(
        "report.html.j2",
        HERE,
        script=Markup(script_of_the_page()),  # noqa: S704 - our own file
        document=Document(head["title"]),
        run=run,
        head=head,
        suites=suites_of(run),
        troubles=troubles,
        defects=defects_of(run),
        before=[failures_of(run, troubles)],
        after=[*since_baseline(run), *instrument_of(run), *sections(run), *after],
        data=_json(embedded(run)),
        marks=MARKS,
        words=WORDS,
        mark=mark,
        inline=inline,
        short=short,
        said_of=said_of,
    )


def script_of_the_page() -> str:
    """The whole script of the page."""
    return "\n".join(["'use strict';", *((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)])


def _json(data: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704 - nothing in it ends the element
