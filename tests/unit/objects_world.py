"""Everything a run can create in a cluster, of all checks of all suites."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.checks.api import Chain, Ref, Requests, Verb
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Feature, is_about, missing_features
from esipp.checks.interoperability import Kind
from esipp.checks.model import Balancer, Family, Path, Protocol, Role
from esipp.cluster.client import Cluster
from esipp.scenarios.api.run import Performer
from esipp.scenarios.continuity.objects import deployment
from esipp.scenarios.endpoint_change import objects as moves
from esipp.scenarios.health.objects import local_service, placed, slot
from esipp.scenarios.interoperability import scale
from esipp.scenarios.interoperability.objects import service_b
from esipp.testbed import manifests, network_policies, pull_secret
from esipp.testbed.objects import Ground, Objects
from esipp.testbed.objects import objects_of as objects_on
from esipp.testbed.source_ranges import SourceRanges
from esipp.testbed.testbed import Testbed
from tests.unit.world import ROLES, topology

RUN, IMAGE = "0101-000000-abcd", "registry.example/echoserver:1"
NODES = topology().nodes
ALL_ROLES = {**ROLES, Role.CONTROL_PLANE: ROLES[Role.OTHER_NODE]}
EVERYTHING = {name: Feature(True, "here") for check in all_checks() for name in check.features}


def made_testbed(*, raw: bool, ranges: SourceRanges | None = None) -> Testbed:
    cluster = cast(Cluster, SimpleNamespace(context="x"))
    outside = {"outside-1": ["192.0.2.11", "2001:db8::11"], "outside-2": ["192.0.2.12", "2001:db8::12"]}
    return Testbed(cluster, RUN, IMAGE, NODES, ALL_ROLES, raw, outside, ranges or SourceRanges())


def props_of(checks: list[Check], features: Mapping[str, Feature] = EVERYTHING) -> Objects:
    ground = Ground(RUN, IMAGE, NODES, ALL_ROLES, features)
    return objects_on(checks, ground)


@cache
def checks(*, sctp: bool) -> tuple[list[Check], list[Path]]:
    """All checks, or those that need no SCTP; and the paths they dial."""
    asked = [check for check in all_checks() if sctp or "sctp" not in check.features]
    return asked, sorted({path for check in asked for path in check.subject.paths}, key=lambda path: path.key)


def pods(*, sctp: bool = True, packets: bool = True) -> dict[str, Json]:
    """The pods by name; those of the Deployment, and of the DaemonSet of agents, by their template."""
    asked, paths = checks(sctp=sctp)
    speaks = any(path.protocol is Protocol.SCTP for path in paths)
    made = made_testbed(raw=speaks or packets).pods_for(paths, props_of(asked))
    found = {pod["metadata"]["name"]: pod for pod in made}
    assert len(found) == len(made), "each name once"
    template = deployment(RUN, IMAGE, NODES, 6)["spec"]["template"]
    agents = made_testbed(raw=speaks or packets).daemon_set()["spec"]["template"]
    return {**found, "deployment": template, "agent-": agents}


def services(without: str = "") -> dict[str, Json]:
    """The Services by name, of paths and of the other suites; those that are made where a feature is missing."""
    features = EVERYTHING | ({without: Feature(False, "left out")} if without else {})
    asked = [check for check in all_checks() if not missing_features(check, features)]
    paths = sorted({path for check in asked for path in check.subject.paths}, key=lambda path: path.key)
    objects: dict[str, list[Path]] = {}
    for path in paths:
        if path.service:
            objects.setdefault(path.object_name, []).append(path)
    made = [made_testbed(raw=True)._service(name, of) for name, of in objects.items()]
    return {each["metadata"]["name"]: each for each in (*made, *props_of(asked, features).services)}


def is_served(service: Json) -> bool:
    """Whether the cluster's own load balancer serves a Service."""
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and not spec.get("loadBalancerClass", "").startswith("esipp.dev/")


def chains(without: str = "") -> list[Chain]:
    """Requests about Services that need not be answered, of checks that can be asked without a feature."""
    features = EVERYTHING | ({without: Feature(False, "left out")} if without else {})
    checks = [check for check in all_checks() if is_about(check, Requests) and not missing_features(check, features)]
    return list({check.subject.chain.name: check.subject.chain for check in checks}.values())


NAMESPACE = manifests.namespace(f"esipp-{RUN}", RUN, "host/1")


class Recorder:
    """A cluster that keeps what is created."""

    def __init__(self, *policies: str) -> None:
        self.found = [{"metadata": {"name": name}} for name in policies]
        self.made: list[tuple[str, Json]] = []

    def list(self, _collection: str) -> list[Json]:
        return self.found

    def create(self, collection: str, manifest: Json) -> Json:
        self.made.append((collection, manifest))
        return manifest

    def request(self, _method: str, path: str, *, body: Json, **_: Any) -> Json:
        return self.create(path, body)


def made_while_trials_last() -> list[tuple[str, Json]]:
    """What suites make beside their objects of set-up, or again: by their own factories."""
    here, ground = f"/api/v1/namespaces/esipp-{RUN}", Ground(RUN, IMAGE, NODES, ALL_ROLES, EVERYTHING)
    recorder = Recorder("deny")
    cluster = cast(Cluster, recorder)
    network_policies.lift(cluster, f"esipp-{RUN}", RUN)
    performer = Performer(cluster, f"esipp-{RUN}", RUN, Stop())
    for chain in chains():
        for step in chain.steps:
            if step.verb is Verb.CREATE:
                performer.made.setdefault(chain.name, set())
                unresolved = replace(step, body=_plain(step.body))
                performer._make(chain, unresolved, {}, [])
    pods = [moves.pod("moves-again", RUN, "worker-a", IMAGE, balancer, 7) for balancer in Balancer]
    pods += [slot(ground, place, 7) for place in placed(ground)]
    services = [service_b(RUN, healthCheckNodePort=30001), local_service("life-1", RUN, {})]
    services += [scale.manifest(RUN, 1, kind, Family.IPV4) for kind in Kind]
    found = [(f"{here}/pods", pod) for pod in pods] + [(f"{here}/services", service) for service in services]
    return [*recorder.made, *found]


def _plain(body: Any) -> Any:
    """A request's body without references to answers that nobody gave."""
    if isinstance(body, Ref):
        return 1
    if isinstance(body, dict):
        return {name: _plain(each) for name, each in body.items()}
    return [_plain(each) for each in body] if isinstance(body, list) else body


@cache
def everything() -> tuple[tuple[str, Json], ...]:
    """Where it is posted, and what: all that the testbed and the suites create, as they make it."""
    here = f"/api/v1/namespaces/esipp-{RUN}"
    template = deployment(RUN, IMAGE, NODES, 6)
    found = [("/api/v1/namespaces", NAMESPACE), (f"/apis/apps/v1/namespaces/esipp-{RUN}/deployments", template)]
    found.append((f"/apis/apps/v1/namespaces/esipp-{RUN}/daemonsets", made_testbed(raw=True).daemon_set()))
    found += [(f"{here}/pods", pod) for name, pod in pods().items() if name not in ("deployment", "agent-")]
    found += [(f"{here}/services", service) for service in services().values()]
    found.append((f"{here}/secrets", pull_secret.manifest(RUN, {"type": "x", "data": {}})))
    return (*found, *made_while_trials_last())
