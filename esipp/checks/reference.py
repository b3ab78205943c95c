"""References: the public documents that a check, a known difference or a version rests on. No I/O."""

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
        """The reference as JSON output and ledgers have it."""
        return {"title": self.title, "url": self.url}


def read_reference(told: str | Mapping[str, Any]) -> Reference:
    """The reference that ``as_json`` wrote, or the text that an older ledger has.

    Raises:
        KeyError: a part is missing.
    """
    return Reference(told) if isinstance(told, str) else Reference(str(told["title"]), str(told["url"]))


def titles(references: Iterable[Reference]) -> str:
    """The titles in one line of plain text."""
    return "; ".join(each.title for each in references)


def with_urls(references: Iterable[Reference]) -> str:
    """The titles in one line of plain text, each with its address where it has one."""
    return "; ".join(f"{each.title} <{each.url}>" if each.url else each.title for each in references)


# ---------------------------------------------------------------------------------------------------- where they are
def docs(page: str, title: str) -> Reference:
    """A page of the Kubernetes documentation, with its anchor."""
    return Reference(f"Kubernetes documentation, {title}", f"{KUBERNETES_DOCS}/{page}")


def issue(repository: str, number: int, title: str) -> Reference:
    """An issue on GitHub. GitHub leads from there to a pull request of that number."""
    return Reference(f"{repository}#{number}: {title}", f"{GITHUB}/{repository}/issues/{number}")


def kep(number: int, title: str, folder: str = "") -> Reference:
    """A Kubernetes Enhancement Proposal: its folder, or its issue, which has the same number."""
    where = f"tree/master/keps/{folder}" if folder else f"issues/{number}"
    return Reference(f"KEP-{number}: {title}", f"{GITHUB}/kubernetes/enhancements/{where}")
