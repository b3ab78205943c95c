"""References: public documents on which checks, known differences and versions rest. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

GITHUB = "https://github.com"
KUBERNETES_DOCS = "https://kubernetes.io/docs"


@dataclass(frozen=True)
class Reference:
    """A document that a reader can open.

    Args:
        title: names the document, and the part of it that is meant.
        url: leads to that part. Empty only for a reference from an older ledger, which kept titles alone.
    """

    title: str
    url: str = ""

    def __str__(self) -> str:
        return self.title

    @property
    def link(self) -> str:
        """The address if a report can safely link to it. A ledger can come from anywhere, so only HTTPS is linked."""
        return self.url if self.url.startswith("https://") else ""

    def as_json(self) -> dict[str, str]:
        """Return the reference as a JSON object."""
        return {"title": self.title, "url": self.url}


def read_reference(told: str | Mapping[str, Any]) -> Reference:
    """Return the reference that ``as_json`` wrote, or that an older ledger has as text.

    Raises:
        KeyError: a part is missing.
    """
    return Reference(told) if isinstance(told, str) else Reference(str(told["title"]), str(told["url"]))


def titles(references: Iterable[Reference]) -> str:
    """Return the titles in one line of plain text."""
    return "; ".join(each.title for each in references)


def with_urls(references: Iterable[Reference]) -> str:
    """Return the titles in one line of plain text, each with its URL if there is one."""
    return "; ".join(f"{each.title} <{each.url}>" if each.url else each.title for each in references)


# ---------------------------------------------------------------------------------------------------- where they are
def docs(page: str, title: str) -> Reference:
    """Return a page of the Kubernetes documentation; ``page`` includes its anchor."""
    return Reference(f"Kubernetes documentation, {title}", f"{KUBERNETES_DOCS}/{page}")


def issue(repository: str, number: int, title: str) -> Reference:
    """Return an issue on GitHub, which redirects to a pull request of the same number."""
    return Reference(f"{repository}#{number}: {title}", f"{GITHUB}/{repository}/issues/{number}")


def kep(number: int, title: str, folder: str = "") -> Reference:
    """Return a Kubernetes Enhancement Proposal: its folder, or the issue with the same number."""
    where = f"tree/master/keps/{folder}" if folder else f"issues/{number}"
    return Reference(f"KEP-{number}: {title}", f"{GITHUB}/kubernetes/enhancements/{where}")
