"""What data planes do that nobody documents as meant, and that was seen by this suite: worth a report to the project.

Data, as differences.py: a finding names the facts under which it is claimed, says in its reason why it is one, and goes
when it is no longer seen (esipp/checks/known_differences.py).
"""

from dataclasses import replace

from esipp.checks.check import Difference, Nature
from esipp.checks.health import EACH_TARGET, TWICE
from suites.references import CILIUM_HEALTH_SERVER

COUNTED_TWICE = Difference(
    when=(("service-proxy", "cilium"), ("families.services", "IPv4, IPv6")),
    seen=TWICE,
    reason="a finding: Cilium counts backends, and a pod of a dual-stack service is one for each of its addresses: one "
    "pod is two endpoints, and weighs as two; kube-proxy, whose document this is, counts a pod once. 200 and 503 are "
    "right all the same, and so are the weights of nodes against each other while all of them have Cilium",
    nature=Nature.FINDING,
    evidence="The health document counts exactly two endpoints where one pod of a dual-stack Service is ready.",
    hides="A wrong count that happens to be twice the right one.",
    references=(CILIUM_HEALTH_SERVER,),
)

COUNTED_BY_TARGET = replace(
    COUNTED_TWICE,
    seen=EACH_TARGET,
    evidence="The health document counts exactly as many endpoints as the pods have target ports and families.",
    hides="A wrong count that happens to be this product.",
    reason="a finding: Cilium counts backends, and each port of a pod that the service leads to is one, in each "
    "family: one pod with three target ports is six endpoints, and weighs as six; kube-proxy counts a pod once",
)
