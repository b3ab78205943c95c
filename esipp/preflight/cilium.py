"""Cilium as the service proxy: its settings from its ConfigMap, and its health from its agents.

Settings that the ConfigMap omits have the defaults of Cilium 1.18 (``cilium-agent --help``). Pure except ``health``.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from esipp.checks.check import Fact, Feature
from esipp.checks.profile import PROXY_PORT
from esipp.probing.prober import Job, Prober

CONFIG = "ConfigMap kube-system/cilium-config"
REPLACED = ("true", "strict", "partial", "probe")
"""Values of ``kube-proxy-replacement`` with which it serves external traffic; the last three are older values."""

NOT_ITS = Fact("not applicable", "Cilium replaces kube-proxy and has no such setting")
AGENT, STAND_IN = ("127.0.0.1", 9879), ("127.0.0.1", PROXY_PORT)
"""The health endpoint of an agent on its node, and its replacement of kube-proxy's healthz, if enabled."""

TIMEOUT, BOUND = 2.0, 10.0

SCTP = "cilium.sctp"
"""The fact that shows whether Cilium supports SCTP at all, between pods and to Services."""

MASQUERADES = ("pod-to-outside.ipv4", "pod-to-outside.ipv6")
LOOPBACKS = ("cilium.loopback.ipv4", "cilium.loopback.ipv6")
BESIDE_KUBE_PROXY = ("cilium.kube-proxy-replacement", "cilium.routing", SCTP, *LOOPBACKS, *MASQUERADES)
"""The facts that also hold beside kube-proxy: Cilium then carries the pods' packets, and those to ClusterIPs itself."""


def version(image: str, daemon_set: str = "cilium") -> Fact:
    """The version from the tag of a DaemonSet's image, such as ``1.18.6``; unknown if the tag is no version."""
    found = re.search(r":v?(\d+\.\d+\.\d+[^@]*)", image)
    how = f"DaemonSet {daemon_set}, image {image}" if image else "cannot list DaemonSets"
    return Fact(found[1] if found else "unknown", how)


def replaces_kube_proxy(config: Mapping[str, Any]) -> bool:
    """Whether Cilium replaces kube-proxy, according to its ConfigMap."""
    return str(config.get("kube-proxy-replacement") or "false").lower() in REPLACED


def read_config(config: Mapping[str, Any]) -> dict[str, Fact]:
    """The facts about Cilium's data plane: those of kube-proxy that apply to it, and its own."""

    def setting(key: str, default: str) -> Fact:
        value = str(config.get(key) or "").strip()
        return Fact(value or default, f"{CONFIG}, {key}" + ("" if value else " is not set: the default"))

    mode = setting("bpf-lb-mode", "snat")
    ports = setting("nodeport-addresses", "primary")
    own = {
        "cilium.kube-proxy-replacement": setting("kube-proxy-replacement", "false"),
        "cilium.load-balancer-mode": mode,
        "cilium.acceleration": setting("bpf-lb-acceleration", "disabled"),
        "cilium.routing": setting("routing-mode", "tunnel"),
        "cilium.socket-balancing": _at_sockets(config),
        "cilium.sockets-of-hosts": _of_hosts(config),
        LOOPBACKS[0]: setting("ipv4-service-loopback-address", "169.254.42.1"),
        LOOPBACKS[1]: setting("ipv6-service-loopback-address", "fe80::1"),
        SCTP: setting("enable-sctp", "false"),
        **{name: _masquerades(setting(f"enable-{name.rpartition('.')[2]}-masquerade", "true")) for name in MASQUERADES},
        "cilium.kube-proxy-healthz-address": setting("kube-proxy-replacement-healthz-bind-address", "none"),
    }
    theirs = {
        "proxy-mode": Fact(f"eBPF {mode.value}", mode.decided),
        "node-port-addresses": Fact(",".join(ports.value.split()), ports.decided),
        "detect-local": NOT_ITS,
        "masquerade-all": NOT_ITS,
    }
    return {**theirs, **own}


def sctp_feature(facts: Mapping[str, str], decided: Mapping[str, str]) -> dict[str, Feature]:
    """The missing feature ``sctp`` if Cilium drops SCTP, as it does by default; empty otherwise."""
    if facts.get(SCTP, "true").lower() == "true":
        return {}
    return {"sctp": Feature(False, f"Cilium drops SCTP unless enable-sctp is true ({decided[SCTP]})")}


def _masquerades(setting: Fact) -> Fact:
    """What happens to a pod's address on its way out of the cluster; towards nodes it may differ."""
    return replace(setting, value="masqueraded" if setting.value.lower() == "true" else "unchanged")


def _at_sockets(config: Mapping[str, Any]) -> Fact:
    """The clients for whose connections Cilium selects the backend at the socket."""
    if str(config.get("bpf-lb-sock-hostns-only") or "").lower() == "true":
        return Fact("hosts only", f"{CONFIG}, bpf-lb-sock-hostns-only")
    return Fact("hosts and pods", f"{CONFIG}: kube-proxy-replacement implies it, bpf-lb-sock-hostns-only is not set")


def _of_hosts(config: Mapping[str, Any]) -> Fact:
    """Whether Cilium selects backends at the sockets of host processes; older values do not imply it."""
    replaced = str(config.get("kube-proxy-replacement") or "false").lower()
    if replaced in ("true", "strict"):
        return Fact("balanced", f"{CONFIG}: kube-proxy-replacement {replaced} implies it")
    for key in ("bpf-lb-sock", "enable-host-reachable-services"):
        if str(config.get(key) or "").lower() == "true":
            return Fact("balanced", f"{CONFIG}, {key}")
    return Fact("not balanced", f"{CONFIG}: neither bpf-lb-sock nor enable-host-reachable-services is true")


def health(agents: Mapping[str, Prober]) -> dict[str, Fact]:
    """The health of Cilium's agents, as esipp's agents read it on each node; ``healthy`` if all answer 200.

    Args:
        agents: the probers of esipp's agents, by node, on the host network.
    """
    futures = {
        name: {node: agent.ask(_job(*where)) for node, agent in agents.items()}
        for name, where in (("cilium.health", AGENT), ("cilium.kube-proxy-healthz", STAND_IN))
    }
    answers = {
        name: {node: _said(future.result(timeout=BOUND)) for node, future in nodes.items()}
        for name, nodes in futures.items()
    }
    return {
        "cilium.health": _fact(answers["cilium.health"], AGENT, _healthy),
        "cilium.kube-proxy-healthz": _fact(answers["cilium.kube-proxy-healthz"], STAND_IN, lambda said: said),
    }


def _job(host: str, port: int) -> Job:
    return Job(f"cilium {port}", "get", host, port, 1, TIMEOUT, url="/healthz")


def _said(results: list[dict[str, Any]]) -> str:
    """The HTTP status, or the outcome if there was none."""
    result = results[0] if results else {}
    status = (result.get("response") or {}).get("status")
    return str(status or result.get("outcome") or "no answer")


def _healthy(said: str) -> str:
    return {"200": "healthy", "503": "unhealthy"}.get(said, said)


def _fact(answers: Mapping[str, str], where: tuple[str, int], say: Callable[[str], str]) -> Fact:
    found = Counter(say(said) for said in answers.values())
    value = next(iter(found)) if len(found) == 1 else "mixed" if found else "unknown"
    results = ", ".join(f"{said} on {', '.join(sorted(node for node in answers if say(answers[node]) == said))}"
                     for said in sorted(found))  # fmt: skip
    return Fact(value, f"http://{where[0]}:{where[1]}/healthz: {results or 'there is no agent to ask from'}")
