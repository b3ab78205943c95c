"""Findings: undocumented behaviour of data planes that this suite found, and that its project should know. Data only.

A finding names the facts under which it holds, and its reason says why it is one. It expires when runs no longer see it
(esipp/checks/expiry.py).
"""

from dataclasses import replace

from esipp.checks.health import EACH_TARGET, TWICE
from esipp.checks.known_differences import KnownDifference, Nature
from suites.references import CILIUM_HEALTH_SERVER

COUNTED_TWICE = KnownDifference(
    when=(("service-proxy", "cilium"), ("families.services", "IPv4, IPv6")),
    covers=TWICE,
    reason="a finding: Cilium counts a dual-stack pod once for each address family, so localEndpoints and weight are "
    "doubled; kube-proxy, which defines the document, counts a pod once. The status codes are still correct, and so "
    "are the weights of nodes relative to each other while all nodes run Cilium",
    nature=Nature.FINDING,
    evidence="The health check's document counts exactly two endpoints for one ready pod of a dual-stack Service.",
    hides="A wrong count that is twice the correct one by chance.",
    references=(CILIUM_HEALTH_SERVER,),
)

COUNTED_BY_TARGET = replace(
    COUNTED_TWICE,
    covers=EACH_TARGET,
    evidence="The health check's document counts one endpoint for each target port and family of the pods.",
    hides="A wrong count that equals this product by chance.",
    reason="a finding: Cilium counts a pod once for each target port and address family, so one pod with three target "
    "ports counts as six endpoints, also in the weight; kube-proxy counts a pod once",
)
