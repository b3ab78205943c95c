"""What the page's signs mean and what to do about them: fixed text, for whoever reads a report for the first time."""

LETTERS = (
    ("C", "the client's own address (of a host process: an address of its node)"),
    ("N", "an address of a node"),
    ("H", "an address of the backend's own node, by a backend that reached itself (hairpin)"),
    ("P", "another pod's address"),
    ("L", "the load balancer's address"),
    ("X", "any other address, or an answer that the client cannot use"),
    ("-", "nothing: the client got no answer"),
)
"""What a backend saw, as the matrix has it."""

VERDICTS = (
    ("pass", "Every single observation is as required.", "Nothing."),
    (
        "fail",
        "Not one observation, or not what must hold throughout, is as required; the controls held, so it is the "
        "cluster's doing.",
        "Begin with the failures above: those of one cause stand together. Core and extended checks make the run fail.",
    ),
    (
        "flaky",
        "In one window some observations are right and some are wrong.",
        "Look at the time strip of the check: at which time, at which node? A product that is right sometimes is not.",
    ),
    (
        "known",
        "It differs for a reason that is known: allowed by the API, a known defect, or a finding of ours. It is not as "
        "required.",
        "Read the reason and its reference. A known defect or finding of a core check ends the run with exit code 1, "
        "unless known defects are accepted.",
    ),
    (
        "unsupported",
        "It was not tested: the cluster lacks what it needs, or it was left out on request.",
        "Read which feature is missing and how that was decided. A core check that was left out makes the run partial.",
    ),
    (
        "inconclusive",
        "A precondition or a positive control did not hold, or it was not measured well enough: nothing is proven.",
        "Repeat it; if it stays, look at the control's path first.",
    ),
    (
        "error",
        "The suite itself failed, or its two witnesses contradict each other.",
        "Not a statement about the cluster. Repeat it, and report it with the check's files.",
    ),
    ("recorded", "Observed, where nothing is required: it neither passes nor fails.", "Read what was seen."),
)
"""The verdicts: what each means, and what to do."""

LEVELS = (
    ("core", "The Kubernetes API contract and its documentation: every cluster must."),
    ("extended", "The documented behaviour of kube-proxy: another data plane may differ, and then says so."),
    ("record", "Informational: nothing is required."),
)

SYMPTOMS = (
    (
        "N where C is required, from outside, on a Local service",
        "The endpoint's node masquerades. Look there for a MASQUERADE or SNAT rule that is not kube-proxy's "
        "(iptables-save -t nat, nft list ruleset), or for one of the network add-on's for traffic into the pod "
        "network. The check's drawing shows between which interfaces the source changed.",
    ),
    (
        "N where C is required, between pods and through a ClusterIP",
        "kube-proxy may run with masqueradeAll, or without knowing the pods' CIDR; or the network add-on masquerades "
        "between pods.",
    ),
    (
        "A letter where - is required (a bare node answers)",
        "The service proxy of that node ignores the traffic policy, a rule beside its own forwards the port, or its "
        "rules are stale: is it alive, and up to date?",
    ),
    (
        "- where an answer is required",
        "The node that was dialled has no rule for the service, a packet filter or NetworkPolicy drops it, or the "
        "answer takes another way back. The packets tell how far the request came.",
    ),
    (
        "- where H is required",
        "A backend cannot reach itself through its service: hairpin mode of its bridge port is off, or nothing "
        "masquerades such packets.",
    ),
    (
        "L where C is required",
        "The load balancer is a proxy or masquerades. If it is meant to be a proxy, the client's address comes in "
        "X-Forwarded-For or the PROXY protocol, and ipMode is to be Proxy.",
    ),
    (
        "C where L is required",
        "The node answers in the load balancer's stead, so that the proxy is by-passed: is ipMode VIP?",
    ),
    ("X, an address of nobody", "A NAT device on the way, or an address that was given away after the run began."),
    (
        "~ at one node or in one family only",
        "That node's rules, or that family's, are being rewritten or are incomplete: compare its drawing with a "
        "sibling's, and see the time strip for when it was.",
    ),
    (
        "A health check says 200 without a local endpoint, or 503 with one",
        "The service proxy of that node is stale, or another process owns the health-check node port. See who listens "
        "there, and whether the EndpointSlice is right.",
    ),
    (
        "Traffic follows pods late, or requests are lost when pods end",
        "Compare the loss with (N+1) times the load balancer's probe period: below it the balancer is as configured, "
        "above it the node's health check, the balancer's threshold or the pods' grace period is to be looked at.",
    ),
    (
        "Much is ? inconclusive",
        "One thing the checks rest on does not hold, most often the direct path between pods, or a client that is "
        "masqueraded before it reaches the cluster. Its control is named in the reason.",
    ),
)
"""If you see this, look there."""
