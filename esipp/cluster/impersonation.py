"""Whom requests impersonate: as the kubeconfig's user says (``as`` and its siblings), and ``--as``, as with kubectl.

The kubernetes package ignores these keys. kubectl does not, so ``kubectl exec`` would act as somebody else.
"""

from collections.abc import Iterator
from urllib.parse import quote

from esipp.base.json import Json

USER = "Impersonate-User"


def impersonation(config: Json, context: str, as_user: str) -> list[tuple[str, str]]:
    """The headers of each request.

    Args:
        config: the kubeconfig, merged from all its files.
        context: the name of a context in it.
        as_user: whom ``--as`` names; empty for whom the kubeconfig says.
    """
    user = _named(config, "context", context).get("user")
    said = _named(config, "user", user)
    return [*_headers({**said, "as": as_user} if as_user else said)]


def _headers(said: Json) -> Iterator[tuple[str, str]]:
    for key, header in (("as", USER), ("as-uid", "Impersonate-Uid")):
        if said.get(key):
            yield header, str(said[key])
    for group in said.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for name, values in (said.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(name), safe='')}", str(value)


def _named(config: Json, kind: str, name: object) -> Json:
    """The content of a named entry of a kubeconfig."""
    entries = (getattr(each, "value", each) for each in config.get(f"{kind}s") or ())  # of the kubernetes package
    return next((each.get(kind) for each in entries if each.get("name") == name), None) or {}
