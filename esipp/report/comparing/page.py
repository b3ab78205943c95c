"""The document as one HTML page that loads nothing, runs nothing and does not depend on colours."""

import base64
import hashlib
from pathlib import Path

from esipp.report.comparing.document import Paper

_HERE = Path(__file__).parent


def as_html(paper: Paper) -> str:
    """The page. All text is escaped; the content security policy allows only the page's own style, by digest."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    style = (_HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    pages = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = pages.get_template("page.html.jinja")
    # the style is a file of this package
    return page.render(paper=paper, digest=digest, style=Markup(style)) + "\n"  # noqa: S704 - our own style sheet, from the package
