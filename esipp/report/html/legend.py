"""The legend of report.html: letters, verdicts, levels, and troubleshooting."""

from esipp.base.document import Pairs, Section, Strong, Table, Text
from esipp.report.html.marks import MARKS, WORDS

LETTERS = (
    ("C", "the client's own address (for a host process: an address of its node)"),
    ("N", "an address of a node"),
    ("H", "an address of the backend's own node: the backend reached itself (hairpin)"),
    ("P", "another pod's address"),
    ("L", "the load balancer's address"),
    ("X", "any other address, or an answer that the client cannot use"),
    ("-", "none: the client got no answer"),
)
"""The letters of the matrix and their meaning."""

VERDICTS = (
    ("pass", "Every observation is as required.", "Nothing."),
    (
        "fail",
        "No observation is as required, or a condition that must always hold was violated. The controls held, so the "
        "cluster is the cause.",
        "Start with the failures above; they are grouped by cause. Core and extended checks make the run fail.",
    ),
    (
        "flaky",
        "Within one observation window, some observations are right and some are wrong.",
        "Look at the check's time strip: when, and at which node? Behaviour that is only sometimes right fails.",
    ),
    (
        "known",
        "The behaviour differs from the requirement for a documented reason: the API allows it, it is a known defect, "
        "or it is a finding without an agreed cause.",
        "Read the reason and its reference. A known defect or finding of a core check makes the run exit with code 1, "
        "unless the run accepts known defects.",
    ),
    (
        "unsupported",
        "The check was not tested: the cluster lacks a feature that it needs, or the user excluded it.",
        "Read which feature is missing and why. An excluded core check makes the run partial.",
    ),
    (
        "inconclusive",
        "A precondition or a positive control did not hold, or the measurement was too coarse. Nothing is proven.",
        "Repeat the check. If it stays inconclusive, look at the control's path first.",
    ),
    (
        "error",
        "The suite itself failed, or its two witnesses contradict each other.",
        "This says nothing about the cluster. Repeat the check, and report the error with the check's files.",
    ),
    ("recorded", "Nothing is required: the observation neither passes nor fails.", "Read the observation."),
)
"""Each verdict: its meaning, and what to do."""

LEVELS = (
    ("core", "The Kubernetes API contract and its documentation: required of every cluster."),
    ("extended", "Documented behaviour of kube-proxy: another data plane may differ if it documents that."),
    ("record", "Informational: nothing is required."),
)

SYMPTOMS = (
    (
        "N where C is required, from outside, on a Local service",
        "The endpoint's node masquerades. Look there for a MASQUERADE or SNAT rule that kube-proxy did not write "
        "(iptables-save -t nat, nft list ruleset), or for a rule of the network add-on for traffic into the pod "
        "network. The check's drawing shows between which interfaces the source changed.",
    ),
    (
        "N where C is required, between pods and through a ClusterIP",
        "kube-proxy may run with masqueradeAll or without the pod CIDR. Or the network add-on masquerades between "
        "pods.",
    ),
    (
        "A letter where - is required (a node without local endpoints answers)",
        "The service proxy of that node ignores the traffic policy, another rule forwards the port, or the proxy's "
        "rules are stale. Check that the proxy runs and is up to date.",
    ),
    (
        "- where an answer is required",
        "The dialled node has no rule for the Service, a packet filter or NetworkPolicy drops the request, or the "
        "answer takes another route back. The captured packets show how far the request came.",
    ),
    (
        "- where H is required",
        "A backend cannot reach itself through its Service: hairpin mode of its bridge port is off, or no rule "
        "masquerades such packets.",
    ),
    (
        "L where C is required",
        "The load balancer proxies or masquerades. If it is meant to be a proxy, X-Forwarded-For or the PROXY protocol "
        "must carry the client's address, and ipMode must be Proxy.",
    ),
    (
        "C where L is required",
        "The node answers instead of the load balancer and so bypasses the proxy. Check whether ipMode is VIP.",
    ),
    ("X, an unknown address", "A NAT device on the route, or an address that was assigned after the run started."),
    (
        "~ at one node or in one family only",
        "The rules of that node or family are incomplete, or were being rewritten. Compare the check's drawing with "
        "that of a similar check; the time strip shows when it happened.",
    ),
    (
        "A health check says 200 without a local endpoint, or 503 with one",
        "The service proxy of that node is stale, or another process owns the health-check node port. Check which "
        "process listens there, and whether the EndpointSlice is right.",
    ),
    (
        "Traffic follows endpoint changes late, or requests are lost when pods terminate",
        "Compare the loss with (N+1) times the load balancer's probe period. Below it, the balancer acts as "
        "configured. Above it, check the node's health check, the balancer's threshold and the pods' grace period.",
    ),
    (
        "Many checks are ? inconclusive",
        "A shared precondition does not hold: most often the direct path between pods, or a client is masqueraded "
        "before it reaches the cluster. The reason names the control.",
    ),
)
"""Symptoms, and where to look."""

MATRIX = (
    "Two letters: both occurred. A line of the matrix covers every tested protocol unless it names some. (+n): n more "
    "Services, with other traits or with no policy set, show the same; Services that differ have lines of their own. "
    "(2nd): a second address of the node. A field stands for all its checks and shows their worst verdict. It has no "
    "sign if all are as required."
)


def legend_of(samples: object) -> Section:
    """The legend; ``samples`` is how many connections the run made on each path."""
    signs = [(Strong(f"{MARKS[name]} {WORDS[name]}", name), meaning, todo) for name, meaning, todo in VERDICTS]
    letters = [(Strong(letter), meaning) for letter, meaning in LETTERS]
    proven = ", ".join(f"{number} connections: {share} %" for number, share in _proven(samples))
    return Section(
        "Legend",
        (
            Section("Verdicts", (Table(("Sign", "Meaning", "What to do"), tuple(signs)),)),
            Section(
                "Letters: the source address that the backend saw",
                (Table(("Letter", "Meaning"), tuple(letters)), Text(MATRIX)),
            ),
            Section("Levels", (Pairs(LEVELS),)),
            Section("Troubleshooting", (Table(("Symptom", "Where to look"), SYMPTOMS),)),
            Section(
                "What the number of connections proves",
                (
                    Text(
                        "If none of n connections differs, then with 95 % confidence at most this share of such "
                        f"connections differs (about 3/n, the rule of three): {proven}. This holds for connections "
                        "with the same client, entry, payload and time. It says nothing about other connections."
                    ),
                ),
            ),
        ),
        "legend",
    )


def _proven(samples: object) -> list[tuple[int, str]]:
    """The highest share that may differ if none of n connections does, at 95 % confidence, for several n."""
    own = samples if isinstance(samples, int) and samples > 0 else 200
    return [(each, f"{100 * (1 - 0.05 ** (1 / each)):.2g}") for each in sorted({20, 60, 200, 1000, own})]
