"""What is done to Services and what must come of it: chains of requests, answers, and the checks about them. No I/O.

Semantics: the API text of Service; pkg/apis/core/validation and pkg/registry/core/service (upstream.md §2.9, §3).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from esipp.checks.check import Profile
from esipp.checks.trials import ScenarioCheck

Json = dict[str, Any]

NOBODY = "esipp.dev/nobody"
"""A load balancer class that nobody serves: what stands in the status is what we write there."""

POLICY, INTERNAL = "spec.externalTrafficPolicy", "spec.internalTrafficPolicy"
HEALTH_PORT, NODE_PORT = "spec.healthCheckNodePort", "spec.ports.0.nodePort"
CLASS, ALLOCATE = "spec.loadBalancerClass", "spec.allocateLoadBalancerNodePorts"
RANGES, INGRESS, CLUSTER_IPS = "spec.loadBalancerSourceRanges", "status.loadBalancer.ingress", "spec.clusterIPs"
TARGET_PORT, AFFINITY = "spec.ports.0.targetPort", "spec.sessionAffinity"
AFFINITY_SECONDS = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"

ANNOTATION = "annotation "
"""A path that begins so names an annotation, whose key has dots of its own."""


class Verb(StrEnum):
    """What a step does.

    ``create`` and ``replace`` send a whole manifest that names nothing which was allocated. ``update`` reads, changes
    some fields and writes the whole object back. ``free`` finds a node port that nobody has. ``listen`` asks every
    node at a port where nobody may listen, and at another where all must.
    """

    CREATE = "create"
    REPLACE = "replace"
    UPDATE = "update"
    MERGE = "merge-patch"
    STRATEGIC = "strategic-merge-patch"
    JSON = "json-patch"
    APPLY = "apply-patch"
    STATUS = "status"
    DELETE = "delete"
    LOOK = "look"
    FREE = "free"
    LISTEN = "listen"


@dataclass(frozen=True)
class Ref:
    """What stands at a path of an earlier step's answer; ``text`` where it is wanted as a string."""

    step: str
    path: str
    text: bool = False


@dataclass(frozen=True)
class Step:
    """One request.

    Args:
        name: of its answer.
        verb: what is done.
        body: of a creation: spec, and annotations; of an update: values by path; else what is sent. May hold Refs.
        of: which of the chain's Services; the empty name is its own.
        drop: paths that an update leaves out.
        since: the step whose answer an update starts from; what is there now where it is empty.
        manager, force: of an apply.
        alone: whether the chain goes on if it is refused; else nothing more is done to that Service.
    """

    name: str
    verb: Verb
    body: Any = None
    of: str = ""
    drop: tuple[str, ...] = ()
    since: str = ""
    manager: str = ""
    force: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Chain:
    """Steps that are made one after the other, on Services of their own."""

    name: str
    steps: tuple[Step, ...]

    @property
    def reuses_a_port(self) -> bool:
        """Whether it names a port again that was given back meanwhile, and that the server may hand to anybody."""
        return any(not ref.text for step in self.steps for ref in refs_in(step.body))


class Is(Enum):
    """What must be true of a field whose value is the server's choice."""

    ABSENT = "none"
    PRESENT = "one"


@dataclass(frozen=True)
class Same:
    """The value that the field had in an earlier step's answer."""

    step: str


@dataclass(frozen=True)
class Taken:
    """The step is taken, and these fields are so in its answer: a value, ``Is``, or ``Same``."""

    step: str
    fields: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Refused:
    """The step is refused: with one of these HTTP statuses and reasons, in words that hold all of ``says``."""

    step: str
    statuses: tuple[int, ...] = (422,)
    reasons: tuple[str, ...] = ("Invalid",)
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Warned:
    """The step is taken, with a warning that has this text in it; or without one, whatever else is warned of."""

    step: str
    text: str
    absent: bool = False


@dataclass(frozen=True)
class Quiet:
    """No node answers at a port, while every node does at another."""

    step: str


Want = Taken | Refused | Warned | Quiet


@dataclass(frozen=True)
class Answer:
    """What the API server made of a step; ``refused`` are HTTP status, reason and message.

    ``trouble`` says why the step was not made, or why its answer says nothing of the server.
    """

    object: Json = field(default_factory=dict)
    refused: tuple[int, str, str] | None = None
    warnings: tuple[str, ...] = ()
    trouble: str = ""

    def as_json(self) -> Json:
        """As the ledger keeps it: without what is the server's bookkeeping."""
        parts = ("spec", "status", "port", "silent", "control")
        kept = {name: part for name, part in self.object.items() if name in parts}
        kept |= {
            name: part for name, part in self.object.get("metadata", {}).items() if name in ("annotations", "labels")
        }
        refused = list(self.refused) if self.refused else None
        return {"answer": kept, "refused": refused, "warnings": list(self.warnings), "trouble": self.trouble}


@dataclass(frozen=True, kw_only=True)
class ApiCheck(ScenarioCheck):
    """A check about what comes of a chain.

    Args:
        chain: what is done; checks may share one.
        wants: all of them must hold.
        given: what must hold besides, or the check proves nothing.
    """

    chain: Chain = field(compare=False, repr=False)
    wants: tuple[Want, ...] = field(compare=False)
    given: tuple[Taken, ...] = field(default=(), compare=False)

    @property
    def asked(self) -> str:
        """The requests, one after the other."""
        return "; then ".join(say_step(step) for step in self.chain.steps)

    @property
    def on_host_network(self) -> bool:
        """Only where something is asked on the wire, from a client outside."""
        return any(step.verb is Verb.LISTEN for step in self.chain.steps)

    @property
    def through_pods(self) -> bool:
        """The API server alone is asked."""
        return False

    @property
    def profile(self) -> Profile:
        """The type with which the chain's first Service is made; what says none is a ClusterIP."""
        specs = (step.body.get("spec", {}) for step in self.chain.steps if isinstance(step.body, dict))
        kind = next((spec["type"] for spec in specs if isinstance(spec, dict) and "type" in spec), "ClusterIP")
        return Profile(kind) if kind in list(Profile) else Profile.CLUSTER_IP


def at(found: Any, path: str) -> Any:
    """What stands at a path of an object; None where nothing does."""
    if path.startswith(ANNOTATION):
        return (found.get("metadata", {}).get("annotations") or {}).get(path.removeprefix(ANNOTATION))
    for part in path.split("."):
        if isinstance(found, list):
            found = found[int(part)] if int(part) < len(found) else None
        else:
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def refs_in(body: Any) -> Iterator[Ref]:
    """Every Ref in a body."""
    if isinstance(body, Ref):
        yield body
    parts = body.values() if isinstance(body, Mapping) else body if isinstance(body, list) else ()
    for part in parts:
        yield from refs_in(part)


def is_absent(value: Any) -> bool:
    """Whether a field is not there, or has the value that stands for that."""
    return value is None or (not isinstance(value, bool) and not value)


# ----------------------------------------------------------------------------------------------------------- in words
def say_path(path: str) -> str:
    """A field as people call it."""
    if path.startswith(ANNOTATION):
        return path
    parts = [part for part in path.split(".") if not part.isdigit() and part not in ("spec", "status")]
    return (
        "port"
        if parts == ["port"]
        else ".".join(parts[-1:] if parts[0] in ("ports", "sessionAffinityConfig") else parts)
    )


def say_want(want: Want) -> str:
    """What must be seen, in a few words."""
    if isinstance(want, Taken):
        return ", ".join(_fields(want)) or "taken"
    if isinstance(want, Refused):
        words = f"refused as {' or '.join(want.reasons)} ({' or '.join(map(str, want.statuses))})"
        return words + (f", naming {' and '.join(want.says)}" if want.says else "")
    if isinstance(want, Warned):
        return f"{'no' if want.absent else 'a'} warning about {want.text}"
    return "no answer on any node"


def _fields(want: Taken) -> Iterator[str]:
    for path, value in want.fields:
        name = say_path(path)
        if isinstance(value, Same):
            yield f"the same {name}"
        elif isinstance(value, Is):
            yield f"no {name}" if value is Is.ABSENT else f"a {name}"
        else:
            yield f"{name} {say_value(value)}"


def say_value(value: Any) -> str:
    """A field's value as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(say_value(each) for each in value)
    if isinstance(value, Ref):
        return f"that of step {value.step}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {say_value(each)}" for name, each in value.items()) + "}"
    return str(value) if str(value).strip() else f"'{value}'"


def say_step(step: Step) -> str:
    """A request in words."""
    whom = f" service {step.of}" if step.of else ""
    what = f" {say_value(step.body)}" if step.body else ""
    what += f" without {' and '.join(map(say_path, step.drop))}" if step.drop else ""
    what += f", as it was at step {step.since}" if step.since else ""
    what += f", as {step.manager}{' with force' if step.force else ''}" if step.manager else ""
    return f"{step.verb.value}{whom}{what}"
