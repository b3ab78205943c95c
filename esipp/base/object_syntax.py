"""Kubernetes' own rules for keys and values of labels, annotations and taints: told before the API server has to.

The API concepts "Labels and Selectors" and "Annotations"; k8s.io/apimachinery/pkg/util/validation (IsQualifiedName,
IsValidLabelValue, IsDNS1123Subdomain).
"""

import re

from esipp.base.errors import PreflightError
from esipp.base.labels import MANAGED_BY

LONGEST_NAME, LONGEST_PREFIX = 63, 253
"""Characters of a key's name, which are those of a label's value too; and of the prefix before its slash."""

MOST_ANNOTATIONS = 256 * 1024
"""Bytes that all annotations of an object may have together (TotalAnnotationSizeLimitB)."""

OURS = "esipp.dev"

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

HINT_KEY = (
    "a key is [PREFIX/]NAME: a name of letters, digits, '-', '_' and '.', 63 characters at most, and a DNS name of 253 "
    "at most."
)
HINT_VALUE = "a value has letters, digits, '-', '_' and '.', begins and ends with a letter or digit, 63 at most."


def check_key(option: str, key: str) -> None:
    """Make sure that it is a key, and nobody's but the user's.

    Raises:
        PreflightError: it is none, or is what the suite itself tells objects apart by.
    """
    prefix, slash, name = key.rpartition("/")
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name) or (slash and not is_subdomain(prefix)):
        raise PreflightError(f"{option}: '{key}' is no key.", HINT_KEY)
    if prefix == OURS or prefix.endswith(f".{OURS}") or key in MANAGED_BY:
        raise PreflightError(
            f"{option}: {key} is the suite's own: it finds what it made by that.", "choose another key."
        )


def check_value(option: str, key: str, value: str) -> None:
    """Make sure that a label, or a taint, may have this value; the empty one it may.

    Raises:
        PreflightError: it may not.
    """
    if value and (len(value) > LONGEST_NAME or not _NAME.fullmatch(value)):
        raise PreflightError(f"{option}: '{value}' cannot be the value of {key}.", HINT_VALUE)


def is_subdomain(text: str) -> bool:
    """Whether it is a DNS name as Kubernetes has them: small letters, digits, '-' and dots."""
    return len(text) <= LONGEST_PREFIX and bool(_SUBDOMAIN.fullmatch(text))
