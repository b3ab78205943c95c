"""Cilium as the service proxy: its settings, as its own ConfigMap has them, and how it is, as its agents tell.

Settings that are left out have the defaults of Cilium 1.18 (``cilium-agent --help``). Pure apart from ``health``.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from esipp.base.fact import Fact
from esipp.checks.check import Feature
from esipp.probing.jobs import Job
from esipp.probing.prober import Prober

CONFIG = "ConfigMap kube-system/cilium-config"
REPLACED = ("true", "strict", "partial", "probe")
"""Values of ``kube-proxy-replacement`` under which it serves Services from outside; the last three are older words."""

NOT_ITS = Fact("not applicable", "Cilium is in kube-proxy's place and has no such setting")
AGENT, STAND_IN = ("127.0.0.1", 9879), ("127.0.0.1", 10256)
"""Where an agent tells how it is, on its node; and what it serves in kube-proxy's place, where it is told to."""

TIMEOUT, BOUND = 2.0, 10.0

SCTP = "cilium.sctp"
"""The fact that tells whether it carries SCTP at all: between pods, and to Services."""


def version(image: str, daemon_set: str = "cilium") -> Fact:
    """Which version it is, by the tag of a DaemonSet's image: ``1.18.6``; unknown where that names no version."""
    found = re.search(r":v?(\d+\.\d+\.\d+[^@]*)", image)
    told = f"DaemonSet kube-system/{daemon_set}, image {image}" if image else "DaemonSets cannot be listed"
    return Fact(found[1] if found else "unknown", told)


def replaces_kube_proxy(config: Mapping[str, Any]) -> bool:
    """Whether it serves Services in kube-proxy's place, by its ConfigMap's data."""
    return str(config.get("kube-proxy-replacement") or "false").lower() in REPLACED


def read_config(config: Mapping[str, Any]) -> dict[str, Fact]:
    """The facts of a data plane that is Cilium's: kube-proxy's, as far as they have a meaning, and its own."""

    def told(key: str, default: str) -> Fact:
        value = str(config.get(key) or "").strip()
        return Fact(value or default, f"{CONFIG}, {key}" + ("" if value else " is left out: the default"))

    mode = told("bpf-lb-mode", "snat")
    ports = told("nodeport-addresses", "primary")
    own = {
        "cilium.kube-proxy-replacement": told("kube-proxy-replacement", "false"),
        "cilium.load-balancer-mode": mode,
        "cilium.acceleration": told("bpf-lb-acceleration", "disabled"),
        "cilium.routing": told("routing-mode", "tunnel"),
        "cilium.socket-balancing": _at_sockets(config),
        "cilium.sockets-of-hosts": _of_hosts(config),
        "cilium.loopback.ipv4": told("ipv4-service-loopback-address", "169.254.42.1"),
        "cilium.loopback.ipv6": told("ipv6-service-loopback-address", "fe80::1"),
        SCTP: told("enable-sctp", "false"),
        **{f"pod-to-outside.ipv{digit}": _masquerades(told(f"enable-ipv{digit}-masquerade", "true")) for digit in "46"},
        "cilium.kube-proxy-healthz-address": told("kube-proxy-replacement-healthz-bind-address", "none"),
    }
    theirs = {
        "proxy-mode": Fact(f"eBPF {mode.value}", mode.decided),
        "node-port-addresses": Fact(",".join(ports.value.split()), ports.decided),
        "detect-local": NOT_ITS,
        "masquerade-all": NOT_ITS,
    }
    return {**theirs, **own}


def sctp_feature(facts: Mapping[str, str], decided: Mapping[str, str]) -> dict[str, Feature]:
    """Why SCTP cannot be asked for where Cilium is told to drop it, which it is by default; else nothing."""
    if facts.get(SCTP, "true").lower() == "true":
        return {}
    return {"sctp": Feature(False, f"Cilium drops SCTP unless enable-sctp is true ({decided[SCTP]})")}


def _masquerades(told: Fact) -> Fact:
    """What becomes of a pod's address on its way out of the cluster; towards nodes it may be another matter."""
    return replace(told, value="masqueraded" if told.value.lower() == "true" else "unchanged")


def _at_sockets(config: Mapping[str, Any]) -> Fact:
    """For whose connections a backend is chosen when they are made, at the socket: their packets name no Service."""
    if str(config.get("bpf-lb-sock-hostns-only") or "").lower() == "true":
        return Fact("hosts only", f"{CONFIG}, bpf-lb-sock-hostns-only")
    return Fact("hosts and pods", f"{CONFIG}: kube-proxy-replacement implies it, bpf-lb-sock-hostns-only is not set")


def _of_hosts(config: Mapping[str, Any]) -> Fact:
    """Whether a backend is chosen at the sockets of host processes; older words for a part of it do not imply that."""
    replaced = str(config.get("kube-proxy-replacement") or "false").lower()
    if replaced in ("true", "strict"):
        return Fact("balanced", f"{CONFIG}: kube-proxy-replacement {replaced} implies it")
    for key in ("bpf-lb-sock", "enable-host-reachable-services"):
        if str(config.get(key) or "").lower() == "true":
            return Fact("balanced", f"{CONFIG}, {key}")
    return Fact("not balanced", f"{CONFIG}: neither bpf-lb-sock nor enable-host-reachable-services is true")


def health(agents: Mapping[str, Prober]) -> dict[str, Fact]:
    """How each node's agent is, asked there by ours; ``healthy`` where all say 200.

    Args:
        agents: ours, by node, on the nodes' own network.
    """
    asked = {
        name: {node: agent.ask(_job(*where)) for node, agent in agents.items()}
        for name, where in (("cilium.health", AGENT), ("cilium.kube-proxy-healthz", STAND_IN))
    }
    answers = {
        name: {node: _said(future.result(timeout=BOUND)) for node, future in nodes.items()}
        for name, nodes in asked.items()
    }
    return {
        "cilium.health": _fact(answers["cilium.health"], AGENT, _healthy),
        "cilium.kube-proxy-healthz": _fact(answers["cilium.kube-proxy-healthz"], STAND_IN, lambda said: said),
    }


def _job(host: str, port: int) -> Job:
    return Job(f"cilium {port}", "get", host, port, 1, TIMEOUT, url="/healthz")


def _said(results: list[dict[str, Any]]) -> str:
    """The status, or how there was none."""
    result = results[0] if results else {}
    status = (result.get("response") or {}).get("status")
    return str(status or result.get("outcome") or "no answer")


def _healthy(said: str) -> str:
    return {"200": "healthy", "503": "unhealthy"}.get(said, said)


def _fact(answers: Mapping[str, str], where: tuple[str, int], say: Callable[[str], str]) -> Fact:
    found = Counter(say(said) for said in answers.values())
    value = next(iter(found)) if len(found) == 1 else "mixed" if found else "unknown"
    told = ", ".join(f"{said} on {', '.join(sorted(node for node in answers if say(answers[node]) == said))}"
                     for said in sorted(found))  # fmt: skip
    return Fact(value, f"http://{where[0]}:{where[1]}/healthz: {told or 'no agent of ours to ask it from'}")
