"""The renderers of documents: text, Markdown, HTML and JSON. Each escapes all text, and adds none of its own."""

from esipp.base.document import Document

FORMATS = ("text", "markdown", "json", "html")
"""What ``--format`` of a command accepts; each command has a JSON of its own."""


def render(document: Document, form: str) -> str:
    """The document as ``text``, ``markdown`` or ``html``."""
    if form == "html":
        from esipp.report.rendering.html import as_html  # jinja2 is loaded for pages alone

        return as_html(document)
    if form == "markdown":
        from esipp.report.rendering.markdown import as_markdown

        return as_markdown(document)
    from esipp.report.rendering.terminal import as_text

    return as_text(document)
