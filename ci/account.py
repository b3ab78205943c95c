"""The account that runs the suite: the rights of docs/rbac.yaml, and a kubeconfig with a short-lived token."""

import json
import os
from pathlib import Path

from ci import loadbalancer
from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.places import CONTEXT, ROOT, Places, places
from ci.step import Journal, SetupError
from esipp.base.dns import RESOLVER

RIGHTS = ROOT / "docs" / "rbac.yaml"
NAMESPACE, NAME = "esipp-account", "esipp"
DURATION = "4h"  # longer than any run; a new one is made for each


def install(there: ClusterAccess, journal: Journal) -> None:
    """Create the account, or update its rights to those of this checkout."""
    with journal.step("create the account that runs the suite", hint="ci/enter kubectl auth whoami") as step:
        kubectl(there, step, "apply", "--server-side", "--filename", RIGHTS)


def kubeconfig_file(where: Places) -> Path:
    """The path of the account's kubeconfig; the admin has another one."""
    return where.run / "esipp-kubeconfig"


def kubeconfig(there: ClusterAccess, where: Places | None = None) -> Path:
    """Write the account's kubeconfig with a new token; its context has the name of the admin's.

    If the API server issues no token now, the last one stays, as ``esipp clean`` must also work with that server
    stopped.

    Raises:
        SetupError: there is no earlier token either.
    """
    path = kubeconfig_file(where or places())
    token = _token(there)
    view = there.ask("kubectl", "--context", CONTEXT, "config", "view", "--minify", "--raw", "--output", "json")
    if not token or not view:
        if path.is_file():
            return path
        raise SetupError(f"The API server issues no token for the account {NAMESPACE}/{NAME}.", "check that it runs.")
    cluster = json.loads(view)["clusters"][0]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": NAME, "user": {"token": token.strip()}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": cluster["name"], "user": NAME}}],
        "current-context": CONTEXT,
    }
    half = path.with_suffix(".half")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(config, file)
    half.rename(path)
    return path


def forget(where: Places) -> None:
    """Remove the kubeconfig, which is of no use without the cluster."""
    kubeconfig_file(where).unlink(missing_ok=True)


def _token(there: ClusterAccess) -> str | None:
    """A new token; the account is made where a cluster was kept that is older than this."""
    start = ("kubectl", "--context", CONTEXT, "--request-timeout=10s")
    create = (*start, "create", "token", NAME, "--namespace", NAMESPACE, "--duration", DURATION)
    token = there.ask(*create)
    if not token and there.ask(*start, "apply", "--server-side", "--filename", RIGHTS):
        token = there.ask(*create)
    return token


def environment(there: ClusterAccess, command: list[str], where: Places | None = None) -> dict[str, str]:
    """The environment of a command: where esipp speaks to the cluster it does so as this account, all else as admin."""
    found = there.environment
    if Path(*command[:1]).name == "esipp" and any(word.partition("=")[0] == "--context" for word in command):
        found["KUBECONFIG"] = str(kubeconfig(there, where))
        if server := loadbalancer.resolver(there):
            found[RESOLVER] = server
    return found
