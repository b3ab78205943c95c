"""References as HTML links."""

from markupsafe import Markup, escape

from esipp.checks.reference import Reference


def linked(reference: Reference) -> Markup:
    """The title, as a link where the reference has a safe address."""
    if not reference.link:
        return escape(reference.title)
    return Markup('<a href="{}" rel="noreferrer">{}</a>').format(reference.link, reference.title)
