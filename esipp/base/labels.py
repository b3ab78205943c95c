"""Labels of every object of a run, by which ``esipp clean`` finds what a killed run left; the syntax of users' own.

Sources of the syntax: the API concepts "Labels and Selectors" and "Annotations";
k8s.io/apimachinery/pkg/util/validation (IsQualifiedName, IsValidLabelValue, IsDNS1123Subdomain).
"""

import re

from esipp.base.errors import PreflightError

MANAGED_BY = {"app.kubernetes.io/managed-by": "esipp"}
RUN_LABEL = "esipp.dev/run"
SERVER_LABEL = "esipp.dev/server"
OWNER = "esipp.dev/owner"
"""Annotation of a run's namespace: the host and process that removes it, as ``host/pid``."""

ROUTE_LABEL, TOOLS_LABEL = "esipp.dev/route", "esipp.dev/tools"
"""Labels of an outside client's container: the addresses to which the docker engine's machine has a route because of
it, and the image with the tools that remove it."""

FINALIZER = "esipp.dev/kept"
"""Keeps a Service that is deleted until the run removes it; ``esipp clean`` removes it, too."""

UNSERVED_CLASS = "esipp.dev/nobody"
"""A load balancer class that no controller serves: the Service gets its ports and no VIP."""


def labels_of(run: str) -> dict[str, str]:
    """The labels of a run's objects."""
    return {**MANAGED_BY, RUN_LABEL: run}


LONGEST_NAME, LONGEST_PREFIX = 63, 253
"""Maximum length of a key's name or a label's value, and of a key's prefix."""

MOST_ANNOTATIONS = 256 * 1024
"""Maximum size of all annotations of an object, in bytes (TotalAnnotationSizeLimitB)."""

OURS = "esipp.dev"

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

HINT_KEY = (
    "use [PREFIX/]NAME: NAME has at most 63 letters, digits, '-', '_' and '.'; PREFIX is a DNS name of at most 253 "
    "characters."
)
HINT_VALUE = "use at most 63 letters, digits, '-', '_' and '.'; begin and end with a letter or digit."


def check_key(option: str, key: str) -> None:
    """Validate a key.

    Raises:
        PreflightError: it is invalid, or reserved by esipp.
    """
    prefix, slash, name = key.rpartition("/")
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name) or (slash and not is_subdomain(prefix)):
        raise PreflightError(f"{option}: '{key}' is not a valid key.", HINT_KEY)
    if prefix == OURS or prefix.endswith(f".{OURS}") or key in MANAGED_BY:
        raise PreflightError(f"{option}: {key} is reserved: esipp finds its own objects by it.", "choose another key.")


def check_value(option: str, key: str, value: str) -> None:
    """Validate the value of a label or taint, which may be empty.

    Raises:
        PreflightError: it is invalid.
    """
    if value and (len(value) > LONGEST_NAME or not _NAME.fullmatch(value)):
        raise PreflightError(f"{option}: '{value}' is not a valid value of {key}.", HINT_VALUE)


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS-1123 subdomain: lower-case letters, digits, '-' and '.'."""
    return len(text) <= LONGEST_PREFIX and bool(_SUBDOMAIN.fullmatch(text))
