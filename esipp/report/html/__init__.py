"""report.html: one page for people, rendered from the ledger. It loads nothing, and works without scripts too.

The other modules of this package make the data, and the templates make the page. jinja2 escapes all text of a ledger.
The content security policy allows only the page's own script, by digest: text of a ledger can never run.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from esipp.ledger.reading import RecordedRun
from esipp.report.html import legend, references
from esipp.report.html.embedded import embedded
from esipp.report.html.head import head_of
from esipp.report.html.listing import suites_of
from esipp.report.html.marks import MARKS, WORDS, said_of
from esipp.report.html.trouble import instrument_of, missing_of, troubles_of
from esipp.report.rendering.html import HERE as PAGE
from esipp.report.rendering.html import blocks
from esipp.report.sections import sections

HERE = Path(__file__).parent
SCRIPTS = ("page.js", "filters.js", "drawer.js", "way.js", "strip.js", "start.js")
"""The script, in the order of its parts."""


def render(run: RecordedRun) -> str:
    """The whole page."""
    script = script_of_the_page()
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=run,
            head=head_of(run),
            suites=suites_of(run),
            troubles=troubles_of(run, run.qualified),
            instrument=instrument_of(run),
            known=missing_of(run, "known"),
            unsupported=missing_of(run, "unsupported"),
            sections=sections(run),
            blocks=blocks,
            data=_json(embedded(run)),
            legend=legend,
            style=Markup((PAGE / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            digest=_digest(script),
        )
    )
    return page.encode("utf-8", "replace").decode() + "\n"  # a ledger may hold an unpaired surrogate


def script_of_the_page() -> str:
    """The whole script of the page."""
    return "\n".join(["'use strict';", *((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)])


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["linked"] = references.linked
    made.globals.update(marks=MARKS, words=WORDS, said_of=said_of)
    return made


def _json(data: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704


def _digest(script: str) -> str:
    """A script's digest for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
