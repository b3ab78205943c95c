"""Registration of this scenario."""

from esipp.checks.catalog import events_of
from esipp.checks.rights import DISCOVERY, rights
from esipp.judging.scenario import Scenario, Typical
from esipp.judging.schedule import PlannedEvent, touched_by
from esipp.scenarios.service_change.evidence import ServiceChangeEvidence
from esipp.scenarios.service_change.judge import decide
from esipp.scenarios.service_change.sections import section, summary
from esipp.scenarios.service_change.subject import ServiceChange

SECONDS = {
    "scaled-to-zero": 43, "replaced": 43, "deleted": 43, "taken-over": 38, "killed": 15, "terminating": 13,
    "terminating-local": 13, "scaled-up-and-down": 15, "affinity": 20, "affinity-outlived": 36, "retyped": 45,
    "one-node-port": 38, "vip": 15, "vip-udp": 45, "source-ranges": 15, "proxy-stopped": 76,
    "replaced-local": 13, "affinity-held": 45, "finalizer": 30, "vip-retyped": 15, "idle": 76, "idle-3-min": 190,
    "idle-16-min": 970, "scaled-to-fifty": 65, "proxy-stopped-deleted": 90, "proxy-sick": 132, "unwanted-node": 22,
    "moved": 15, "one-source-port": 20, "retyped-otherwise": 60,
    "moved-local": 15, "internal-policy": 15, "endpoint-slices": 17, "endpoint-without-node": 14, "address-reused": 20,
    "affinity-local": 20, "controller-stopped": 43, "balancer-cut-off": 25, "speaker-stopped": 27,
    "announcer-stopped": 43, "network-agent-stopped": 96, "proxy-slow": 47, "node-deleted": 16,
    "node-deleted-vip": 20, "node-left": 16, "cordoned": 57, "api-slow": 17, "namesake": 18, "address-added": 24,
    "address-added-local": 48,
    "network-policy": 75, "network-policy-vip": 75, "vip-without-node-ports": 10, "distribution": 15,
    "distribution-local": 15, "families": 17, "port-changed": 41, "port-removed": 40,
    "vip-port-changed": 12, "external-ip": 17, "freed": 165, "freed-vip": 160, "target-port": 15,
}  # fmt: skip
"""How long each event usually takes, with kube-proxy: what its known defects keep from following is waited for once."""


def _planned(name: str) -> PlannedEvent:
    event = events_of("changes")[name]
    return PlannedEvent(name, SECONDS[name], touched_by(event.disruptions), disrupts=event.disrupts)


SCENARIO = Scenario(
    name="service_change",
    suite="changes",
    record="changes",
    subjects=(ServiceChange,),
    evidence=ServiceChangeEvidence,
    decide=decide,
    section=section,
    summary=summary,
    phases=(Typical("changes", base=2, events=tuple(map(_planned, SECONDS))),),
    rights=(
        *rights("create delete get list patch", "services"),
        *rights("create delete get", "pods"),
        *rights("list", "endpointslices", DISCOVERY),
    ),
)
