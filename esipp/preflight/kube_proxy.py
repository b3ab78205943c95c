"""kube-proxy's version, which may differ from the API server's and between nodes. Pure, no I/O."""

import re
from collections.abc import Iterable, Mapping

from esipp.base.plural import counted
from esipp.checks.check import PROXY_SKEW, PROXY_VERSION, Fact
from esipp.checks.versions import read_version
from esipp.ledger.reading import Component
from esipp.preflight.components import KUBELET, SERVICE_PROXY

NAME = "kube-proxy"

SUPPORTED = 3
"""The most minor versions that Kubernetes supports: https://kubernetes.io/releases/version-skew-policy/#kube-proxy."""


def version_facts(server: str, components: Iterable[Component], facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The facts of kube-proxy's version: of its pods; of its DaemonSet without visible pods; else of the kubelets.

    Args:
        server: the API server's version.
        components: the components of the cluster.
        facts: ``PROXY_VERSION`` as the DaemonSet has it, if it is known.
    """
    components = list(components)
    of_pods = _by_version(each for each in components if each.kind == SERVICE_PROXY and each.name == NAME)
    declared = facts.get(PROXY_VERSION, Fact("unknown", ""))
    if of_pods and [*of_pods] != [declared.value]:
        how = "; ".join(f"{version}: {decided}" for version, decided in of_pods.items())
        found = Fact(", ".join(of_pods), how)
    elif declared.value != "unknown":
        found = declared
    else:
        kubelets = _by_version(each for each in components if each.kind == KUBELET)
        how = "the kubelets' version, because neither a DaemonSet nor pods show kube-proxy's"
        return {PROXY_VERSION: Fact(", ".join(kubelets) or "unknown", how)}  # there may be another service proxy
    return {PROXY_VERSION: found} | skew_facts(server, found)


def _by_version(components: Iterable[Component]) -> dict[str, str]:
    """How each version was determined, the oldest first; tags that are no version are left out."""
    found: dict[str, str] = {}
    for each in components:
        version = each.version.removeprefix("v")
        if read_version(version):
            found[version] = "; ".join(filter(None, (found.get(version), each.decided)))
    return dict(sorted(found.items(), key=lambda item: _parts(item[0])))


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def skew_facts(server: str, proxy: Fact) -> dict[str, Fact]:
    """The fact of the skew, if any kube-proxy is of another minor version than the API server."""
    at_server = read_version(server)
    at_proxies = [found for each in proxy.value.split(", ") if (found := read_version(each))]
    if at_server is None or not at_proxies:
        return {}
    behind = sorted({at_server[1] - minor for _, minor in at_proxies}, reverse=True)
    if behind == [0]:
        return {}
    words = ", ".join(_in_words(each) for each in behind)
    more = "" if behind[0] <= SUPPORTED and behind[-1] >= 0 else "; Kubernetes does not support this"
    how = f"kube-proxy {proxy.value} under the API server {server.removeprefix('v')}"
    return {PROXY_SKEW: Fact(f"{words}{more}", how)}


def _in_words(behind: int) -> str:
    if behind == 0:
        return "as the API server"
    return f"{counted(abs(behind), 'minor version')} {'older' if behind > 0 else 'newer'} than the API server"
