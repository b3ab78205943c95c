"""Checks about the API against a server that lies, one way each: the right checks notice, and no others."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from esipp.base.interrupt import Stop, StoppedError
from esipp.base.json import Json
from esipp.base.labels import labels_of
from esipp.checks.api import ANNOTATION, Answer, ApiCheck, Chain, Quiet, Refused, Requests, Warned
from esipp.checks.check import Feature, Level, Status, is_about
from esipp.cluster.client import ApiError, UnreachableError
from esipp.scenarios.api.judge import ApiEvidence
from esipp.scenarios.api.run import Listen, Performer, _make, in_turn
from suites.compatibility.checks import EDITS as ALL_CHECKS
from tests.unit.services_api_server import FakeServices
from tests.unit.verdicts import judge_with
from tests.unit.world import FINE

CHECKS = [check for check in ALL_CHECKS if is_about(check, Requests)]
CHAINS = {check.subject.chain.name: check.subject.chain for check in CHECKS}
FEATURES = {name: Feature(True, "made up") for check in CHECKS for name in check.features}
EVERY_NODE = ("endpoint-node IPv4", "bare-node IPv4")


def hear(silent: str = "refused", control: str = "200") -> Listen:
    def listen(_silent: int, _control: int) -> Json:
        return {"silent": dict.fromkeys(EVERY_NODE, silent), "control": dict.fromkeys(EVERY_NODE, control)}

    return listen


def perform(api: FakeServices, listen: Listen | None = None, stop: Stop | None = None) -> ApiEvidence:
    seen, cluster = ApiEvidence(), api
    performer = Performer(cluster, "esipp-test", "test", stop or Stop(), listen or hear())
    for chain in CHAINS.values():
        performer.perform(chain, seen.answers.setdefault(chain.name, {}))
    return seen


def differing(seen: ApiEvidence) -> dict[str, Status]:
    found = {
        check.id.removeprefix("api."): judge_with(check, seen, FEATURES, {"kubernetes": "v1.36.0"}).status
        for check in CHECKS
    }
    return {name: status for name, status in found.items() if status not in FINE}


def noticed(*lies: str, listen: Listen | None = None) -> dict[str, Status]:
    return differing(perform(FakeServices(*lies), listen))


def test_an_honest_server_is_conformant_and_nothing_is_left() -> None:
    api = FakeServices()
    assert differing(perform(api)) == {}
    assert api.services == {}


FREED = "change.*.freed client.drops-both.freed"
OUT_OF_RANGE = "health-port.negative* health-port.too-large* health-port.out-of-range*"
PORT_ANYWHERE = (
    "health-port.clusterip* health-port.load-balancer-unset* health-port.external-ips health-port.nodeport.words "
    "health-port.cluster.words external-name.health-port change.leave-*-with-port"
)
FIELDS_ANYWHERE = (
    "source-ranges.nodeport* source-ranges.clusterip class.nodeport* class.clusterip allocate.nodeport* "
    "allocate.clusterip external-name.source-ranges external-name.class external-name.allocate "
    "change.leave-type-with-class"
)
POLICY_ANYWHERE = "policy.clusterip.local* policy.clusterip.cluster* policy.headless external-name.policy"
WITH_WORDS = ("policy", "internal-policy", "health-port", "source-ranges", "class", "allocate", "families")
NO_NAME = "change.loadbalancer-to-externalname"

LIES = {
    "policy-anywhere": f"{POLICY_ANYWHERE} change.leave-type-with-policy",
    "port-anywhere": PORT_ANYWHERE,
    "fields-anywhere": FIELDS_ANYWHERE,
    "old-values": "policy.value.onlylocal* policy.value.global*",
    "any-value": "policy.value.[olguw]* internal-policy.value.*",
    "any-decoding": "policy.value.number",
    "terse": " ".join(f"{field}.*.words" for field in WITH_WORDS),
    "local-by-default": (
        "policy.nodeport.default policy.loadbalancer.default policy.external-ips.default policy.nodeport.empty "
        "health-port.load-balancer-unset* change.clusterip-to-*.cluster.policy "
        "change.clusterip-to-loadbalancer.cluster.health-port change.policy-removed client.apply-given-up "
        "client.drops-both client.drops-policy old.*.policy old.*.loadbalancer.health-port old.*.nonsense.* "
        "old.*.not-heard"
    ),
    "no-internal-default": "internal-policy.*.default client.drops-internal-policy",
    "one-policy": (
        "policy.both.local-and-cluster policy.both.cluster-and-local change.*.cluster.rest change.round-trip*.away "
        f"{NO_NAME} client.drops-internal-policy"
    ),
    "no-range": OUT_OF_RANGE,
    "hands-out-twice": f"{OUT_OF_RANGE} health-port.is-a-nodeport* change.to-local.taken-port",
    "two-allocators": "health-port.is-a-nodeport*",
    "nodeports-twice": "health-port.is-no-nodeport",
    "ignores-choice": (
        f"{FREED} health-port.of-refused change.round-trip.same-port change.to-local.chosen-port old.*.two-ports"
    ),
    "leaks": f"{FREED} change.round-trip.same-port",
    "keeps-refused": "health-port.of-refused",
    "always-allocates": "allocate.off",
    "ignores-nodeports": "allocate.off.chosen",
    "takes-nodeports-away": "allocate.turned-off",
    "families-change": "families.changed*",
    "narrows-wrongly": "families.removed",
    "widens-anew": "families.added",
    "class-changes": "class.changed* class.removed* client.drops-class",
    "no-checks": (
        "source-ranges.address source-ranges.prefix source-ranges.annotation.nodeport source-ranges.annotation.prefix "
        "class.nonsense affinity.value affinity.zero affinity.more-than-a-day distribution.value external-ips.loopback"
    ),
    "short-affinity": "affinity.default-seconds affinity.zero affinity.more-than-a-day",
    "always-sticky": "affinity.default",
    "more-ranges": "source-ranges.kept source-ranges.annotation.field-wins",
    "no-distribution": "distribution.beside-local",
    "no-mode": "ip-mode.default",
    "one-mode": "ip-mode.proxy",
    "other-mode": "ip-mode.default ip-mode.vip",
    "any-mode": "ip-mode.hostname ip-mode.value",
    "any-status": "status.nodeport",
    "names-have-all": f"external-name.none {NO_NAME}",
    "keeps-policy policy-anywhere": (
        f"{POLICY_ANYWHERE} external-ips.removed change.*-to-clusterip.*.policy change.leave-type-with-policy {NO_NAME}"
    ),
    "keeps-balancer fields-anywhere": f"{FIELDS_ANYWHERE} change.loadbalancer-to-*.balancer {NO_NAME}",
    "keeps-status": f"change.*.status {NO_NAME}",
    "new-nodeport-with-type": "change.nodeport-to-loadbalancer.*.node-port change.loadbalancer-to-nodeport.*.node-port",
    "resets-policy-with-type": (
        "change.clusterip-to-*.local.policy change.nodeport-to-loadbalancer.local.policy "
        "change.loadbalancer-to-nodeport.local.policy change.*-to-loadbalancer.local.health-port"
    ),
    "resets-internal-with-type": f"change.*-to-*.rest {NO_NAME}",
    "wipes-changes": "change.leave-*",
    "resets-policy-on-PUT": (
        "client.update.policy client.update.health-port client.replace.policy client.replace.health-port "
        "client.drops-allocated client.drops-internal-policy client.drops-allocate"
    ),
    "resets-policy-on-PATCH": " ".join(
        f"client.{way}.{part}"
        for way in ("strategic", "json-patch", "merge", "kubectl-apply")
        for part in ("policy", "health-port")
    ),
    "resets-policy-on-APPLY": "client.apply.policy client.apply.health-port",
    "moves-port-on-PUT": (
        "client.update.health-port client.replace.health-port client.drops-allocated client.drops-internal-policy "
        "client.drops-allocate"
    ),
    "moves-port-on-PATCH": (
        "client.strategic.health-port client.json-patch.health-port client.merge.health-port "
        "client.kubectl-apply.health-port"
    ),
    "moves-port-on-APPLY": "client.apply.health-port",
    "moves-nodeport-on-PATCH": (
        "client.strategic.rest client.json-patch.rest client.merge.rest client.kubectl-apply.rest"
    ),
    "moves-nodeport-on-PUT": "client.update.rest client.replace.rest client.drops-both.rest client.drops-allocated",
    "moves-nodeport-on-APPLY": "client.apply.rest",
    "patches-nothing-back": "client.merge.rest client.replace.health-port client.replace.rest client.drops-allocated",
    "ignores-version": "client.stale client.stale.unchanged",
    "no-conflicts": "client.apply-conflict* client.apply-forced.lost",
    "nameless-conflicts": "client.apply-conflict.words",
    "shares-nothing": "client.apply-shared",
    "apply-replaces": "client.apply-beside",
    "no-force": "client.apply-forced client.apply.*",
    "warns": "old.*.warning",
    "eats-annotations": "old.*.kept old.*.nonsense.*",
    "checks-annotations": "old.*.nonsense.*",
    "annotation-fills-in": (
        "old.alpha.loadbalancer.policy old.alpha.loadbalancer.health-port old.alpha.nodeport.policy old.alpha.not-heard"
    ),
    "annotation-wins": (
        "old.alpha.loadbalancer.policy old.alpha.loadbalancer.health-port old.alpha.nodeport.policy "
        "old.alpha.not-heard old.alpha.onlylocal.* old.alpha.global.*"
    ),
    "controller": (
        "old.*.loadbalancer.policy old.*.nodeport.policy old.*.loadbalancer.health-port old.*.not-heard "
        "old.*.onlylocal.loadbalancer old.*.onlylocal.nodeport"
    ),
}
"""The checks that each lie turns red, as patterns of ids; each stands for at least one check. Nothing else differs."""

OPEN = {
    "keeps-health-port port-anywhere": "change.*-to-*.freed change.round-trip.freed change.policy-removed.freed",
    "carries-policy-over": "change.policy-removed.freed client.drops-both.freed",
    "must-know": "client.drops-both.freed",
    "needs-nodeports": "client.drops-allocate",
    "local-by-default": "change.policy-removed.freed client.drops-both.freed",
    "no-force": "client.apply-forced.lost",
    "orders-families": "families.removed",
}
"""What cannot be decided meanwhile, because what must come before did not happen."""

LIES |= {
    "keeps-health-port port-anywhere": (
        f"{PORT_ANYWHERE} change.loadbalancer-to-clusterip.local.health-port {NO_NAME} change.round-trip.away "
        "change.loadbalancer-to-nodeport.local.health-port change.round-trip.back change.round-trip.same-port "
        "change.policy-removed client.apply-forced client.apply-given-up client.drops-policy"
    ),
    "carries-policy-over": "change.policy-removed client.apply-given-up client.drops-both client.drops-policy",
    "must-know": "client.replace.* client.drops-both client.drops-both.rest client.drops-allocated",
    "needs-nodeports": "allocate.off.health-port",
    "orders-families": "families.order families.added",
}


def those(patterns: str) -> set[str]:
    ids = [check.id.removeprefix("api.") for check in CHECKS]
    found = {pattern: [each for each in ids if fnmatchcase(each, pattern)] for pattern in patterns.split()}
    assert [pattern for pattern, matching in found.items() if not matching] == []
    return {each for matching in found.values() for each in matching}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_trips_the_checks_about_it(lie: str) -> None:
    result = noticed(*lie.split())
    assert {name for name, status in result.items() if status is Status.FAIL} == those(LIES[lie])
    assert {name for name, status in result.items() if status is not Status.FAIL} == those(OPEN.get(lie, ""))


def falsified(check: ApiCheck, honest: ApiEvidence) -> Iterator[tuple[str, ApiEvidence]]:
    """Each thing that a check wants, made otherwise in what was seen."""
    for want in check.subject.wants:
        answers = honest.answers[check.subject.part]
        answer = answers[want.step]
        if isinstance(want, Refused):
            others = [("taken", Answer({"metadata": {}, "spec": {}}))]
            others += [("another refusal", replace(answer, refused=(404, "NotFound", "gone")))]
        elif isinstance(want, Warned):
            others = [("other warnings", replace(answer, warnings=(f"299 - {want.text}",) if want.absent else ()))]
        elif isinstance(want, Quiet):
            others = [("heard", Answer({**answer.object, "silent": {"node": "200"}}))]
        else:
            others = [(path, Answer(otherwise(answer.object, path))) for path, _ in want.fields]
            others += [("refused", Answer(refused=(422, "Invalid", "no")))]
        for said, other in others:
            yield said, ApiEvidence(answers={check.subject.part: {**answers, want.step: other}})


def otherwise(whole: Json, path: str) -> Json:
    """The object with another value at a path."""
    changed = copy.deepcopy(whole)
    if path.startswith(ANNOTATION):
        notes = changed["metadata"].setdefault("annotations", {})
        notes.pop(path.removeprefix(ANNOTATION)) if path.removeprefix(ANNOTATION) in notes else notes.update(x="y")
        return changed
    *way, last = path.split(".")
    place: Any = changed
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    had = place.get(last)
    place[last] = None if had else "something"
    return changed


def test_everything_that_a_check_wants_can_fail() -> None:
    honest = perform(FakeServices())
    passed = [
        (check.id, said)
        for check in CHECKS
        for said, seen in falsified(check, honest)
        if judge_with(check, seen, FEATURES, {}).status
        is not (Status.RECORDED if check.level is Level.RECORD else Status.FAIL)
    ]
    assert passed == []


# ------------------------------------------------------------------------------------------ who is no API server
@pytest.mark.parametrize(
    ("silent", "control", "status"),
    [
        ("refused", "503", None),
        ("503", "200", Status.FAIL),
        ("timed out", "200", None),
        ("answered 404", "200", Status.FAIL),
        ("refused", "refused", Status.INCONCLUSIVE),
        ("error", "200", Status.INCONCLUSIVE),
    ],
)
def test_silence_is_believed_only_beside_an_answer(silent: str, control: str, status: Status | None) -> None:
    result = noticed(listen=hear(silent, control))
    assert result == ({} if status is None else dict.fromkeys(those("old.*.not-heard"), status))


def test_without_a_client_outside_the_rest_is_judged() -> None:
    seen, performer = ApiEvidence(), Performer(FakeServices(), "esipp-test", "test", Stop())
    for chain in CHAINS.values():
        performer.perform(chain, seen.answers.setdefault(chain.name, {}))
    assert differing(seen) == dict.fromkeys(those("old.*.not-heard"), Status.INCONCLUSIVE)


def test_a_quota_says_nothing_of_the_rules() -> None:
    result = noticed("forbids")
    assert set(result.values()) == {Status.INCONCLUSIVE}
    assert those("policy.value.* client.stale") <= set(result)


@pytest.mark.parametrize(
    "refusal",
    [
        (422, "Invalid", "ValidatingAdmissionPolicy 'balancers' denied request: spec.loadBalancerClass is ours"),
        (400, "BadRequest", 'admission webhook "services.example" denied the request: healthCheckNodePort'),
        (500, "InternalError", 'Internal error occurred: failed calling webhook "services.example": refused'),
        (500, "InternalError", "failed to allocate requested HealthCheck NodePort 1: etcdserver: request timed out"),
    ],
)
def test_what_a_cluster_refuses_for_reasons_of_its_own_says_nothing_of_the_rules(
    refusal: tuple[int, str, str],
) -> None:
    class Particular(FakeServices):
        def _create(self, body: Json, warnings: list[str]) -> Json:
            raise ApiError(*refusal, "POST")

    statuses = {
        check.id: judge_with(check, perform(Particular()), FEATURES, {}).status for check in CHECKS[:3] + OF_PORTS
    }
    assert set(statuses.values()) == {Status.INCONCLUSIVE}


OF_PORTS = [check for check in CHECKS if "api.health-port." in check.id]


def test_warnings_about_something_else_are_not_about_an_annotation() -> None:
    class Chatty(FakeServices):
        def _create(self, body: Json, warnings: list[str]) -> Json:
            warnings.append("299 - services should name their owner")
            return super()._create(body, warnings)

    assert differing(perform(Chatty())) == {}


@pytest.mark.parametrize("namespace", ["tenant", "esipp-test"])
def test_a_port_that_another_service_takes_first_is_no_fault(namespace: str) -> None:
    class Busy(FakeServices):
        """Somebody takes each port that is freed, at once: a tenant, or another chain of ours."""

        def delete(self, path: str) -> None:
            gone = self.services.get(path.rpartition("/")[2], {"spec": {}})["spec"]
            super().delete(path)
            port = gone.get("healthCheckNodePort")
            if port and "deleted" in path:
                spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
                self.others.append({"metadata": {"namespace": namespace, "name": "rival"}, "spec": spec})

    seen = perform(Busy())
    assert differing(seen) == {"change.deleted.freed": Status.INCONCLUSIVE}
    assert f"{namespace}/rival" in seen.answers["change-deleted"]["claimed"].trouble


def test_a_port_that_is_heard_because_somebody_got_it_meanwhile_is_no_fault() -> None:
    api = FakeServices()

    def listen(silent: int, _control: int) -> Json:
        spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": silent}
        api.others.append({"metadata": {"namespace": "tenant", "name": "rival"}, "spec": spec})
        return hear(silent="503")(0, 0)

    assert differing(perform(api, listen)) == dict.fromkeys(those("old.*.not-heard"), Status.INCONCLUSIVE)


@pytest.mark.parametrize(("rivals", "made"), [(0, 1), (1, 2), (9, 3)])
def test_a_chain_whose_port_somebody_took_is_made_again_with_others(rivals: int, made: int) -> None:
    chain, seen, performed = next(iter(CHAINS.values())), ApiEvidence(), list[str]()

    class Rivalled:
        def perform(self, chain: Chain, answers: dict[str, Answer]) -> None:
            performed.append(chain.name)
            trouble = "the service tenant/rival took port 30123 meanwhile" if len(performed) <= rivals else ""
            answers["created"] = Answer(trouble=trouble)

    _make(None, Rivalled(), chain, seen)
    assert len(performed) == made
    assert bool(seen.answers[chain.name]["created"].trouble) is (rivals >= made)


def test_chains_that_ask_for_a_port_again_are_known() -> None:
    alone = {check.id.removeprefix("api.") for check in CHECKS if check.subject.chain.reuses_a_port}
    assert those(f"{FREED} change.round-trip.same-port change.to-local.* old.*.two-ports old.*.not-heard") <= alone
    assert not alone & those("client.stale policy.* old.*.edited old.*.kept change.nodeport-*")
    (some, first), (one, then) = in_turn(CHAINS.values())
    assert some > one == 1
    assert sorted(chain.name for chain in (*first, *then)) == sorted(CHAINS)
    assert [chain.reuses_a_port for chain in (*first, *then)] == [False] * len(first) + [True] * len(then)


def test_a_service_that_somebody_holds_has_not_given_its_port_back() -> None:
    class Held(FakeServices):
        def delete(self, path: str) -> None:
            if not path.endswith("change-deleted"):
                super().delete(path)

    assert differing(perform(Held())) == {"change.deleted.freed": Status.INCONCLUSIVE}


class Meddled(FakeServices):
    """Conflicts with everybody who writes an object back; ``writes`` for somebody else's writing before."""

    writes = True

    def request(self, method: str, path: str, **rest: Any) -> Json:
        if method == "PUT" and not path.endswith(("client-replace", "client-stale")):
            if self.writes:
                super().request("PATCH", path, body={"metadata": {"annotations": {"a": "b"}}}, content="merge-patch")
            raise ApiError(409, "Conflict", "the object has been modified", f"PUT {path}")
        return super().request(method, path, **rest)


def test_a_conflict_with_somebody_who_did_write_is_no_fault() -> None:
    api = Meddled()
    assert differing(perform(api)) == dict.fromkeys(those("client.update.* client.drops-*"), Status.INCONCLUSIVE)
    api = Meddled()
    api.writes = False
    result = differing(perform(api))
    assert {name for name, status in result.items() if status is Status.FAIL} >= those(
        "client.update.* client.drops-both"
    )


def test_what_is_applied_carries_the_label_of_the_run() -> None:
    class Labelled(FakeServices):
        def _store(self, service: Json) -> Json:
            assert service["metadata"]["labels"].items() >= labels_of("test").items()
            return super()._store(service)

    perform(Labelled())


def test_a_chain_that_breaks_off_leaves_its_own_checks_open() -> None:
    seen = perform(FakeServices())
    seen.trouble["client-stale"] = "the API server does not answer"
    seen.broken["rule-ranges"] = "KeyError: 'spec'"
    result = differing(seen)
    assert result == {
        "client.stale": Status.INCONCLUSIVE,
        "client.stale.unchanged": Status.INCONCLUSIVE,
        "source-ranges.kept": Status.ERROR,
    }


def test_checks_whose_chain_was_never_made_are_our_fault() -> None:
    assert set(differing(ApiEvidence()).values()) == {Status.ERROR}


def test_what_was_created_goes_also_if_the_server_falls_silent() -> None:
    class Silent(FakeServices):
        def request(self, method: str, path: str, **rest: Any) -> Json:
            if method == "PATCH":
                raise UnreachableError("timed out")
            return super().request(method, path, **rest)

    api = Silent()
    performer = Performer(api, "esipp-test", "test", Stop())
    answers: dict[str, Any] = {}
    with pytest.raises(UnreachableError):
        performer.perform(CHAINS["change-round-trip"], answers)
    assert (set(answers), api.services) == ({"created"}, {})


def test_an_interrupt_ends_it() -> None:
    stop, api = Stop(), FakeServices()
    stop.set()
    with pytest.raises(StoppedError):
        perform(api, stop=stop)
    assert api.requests == []


# ---------------------------------------------------------------------------------------------------- the checks
def test_checks_of_one_chain_mean_the_same_chain() -> None:
    assert [check.id for check in CHECKS if check.subject.chain != CHAINS[check.subject.part]] == []


def test_names_are_fit_for_services() -> None:
    longest = max(len(f"{name}-{step.of}") for name, chain in CHAINS.items() for step in chain.steps)
    assert longest <= 63
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in CHAINS)


def test_words_of_refusals_are_never_core() -> None:
    assert [check.id for check in CHECKS if check.id.endswith(".words") and check.level is not Level.EXTENDED] == []


@pytest.mark.parametrize(
    ("name", "version", "reference"),
    [
        ("status.nodeport", "1.29", "119789"),
        ("client.json-patch.policy", "1.22", "KEP-2086"),
        ("client.replace.policy", "1.23", "103532"),
        ("client.drops-policy", "1.23", "103532"),
        ("change.loadbalancer-to-nodeport.local.status", "1.22", "KEP-2086"),
    ],
)
def test_a_check_is_as_old_as_what_it_asks_for(name: str, version: str, reference: str) -> None:
    (check,) = [check for check in CHECKS if check.id == f"api.{name}"]
    assert check.since == version
    assert reference in str(check.since_why)


def test_a_check_says_its_requests() -> None:
    asked = {check.id: check.asked for check in CHECKS}
    assert asked["api.client.stale"] == (
        "create {spec: {type: LoadBalancer, loadBalancerClass: esipp.dev/nobody, externalTrafficPolicy: Cluster}}; "
        "then merge-patch {spec: {externalTrafficPolicy: Local}}; "
        "then update {spec.ports.0.targetPort: 8080}, as it was at step created; then look"
    )
