"""Checks of health checks: the answer of each node to each client, also while pods come and go."""

from collections.abc import Iterator

from esipp.checks.check import Check, Level
from esipp.checks.health import About, HealthAnswer, HealthScenario, Place, Question, Situation
from esipp.checks.model import Client, Family
from suites.clients import HOST_ON_OTHER_NODE, OUTSIDE_1, POD_ON_OTHER_NODE
from suites.health_checks import profile_figures
from suites.health_checks.requirements import *
from suites.known_differences.cilium import COUNTED_BY_TARGET, COUNTED_TWICE
from suites.needs import needs

SUITE = "health_checks"
FAMILIES = tuple(Family)
CLIENTS = (OUTSIDE_1, POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE)
NODES = (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE, Place.CONTROL_PLANE)
DIALLED = (Place.ENDPOINT_NODE, Place.BARE_NODE)
LISTENING = {"prompt", "chosen", "kept", "claimable", "freed-by-policy", "freed-by-type", "freed-by-deletion"}
"""Steps of a port's life cycle that a client outside also probes on the nodes."""


def check(
    question: Question, about: About, level: Level, requirement: str, *references: Reference
) -> Check[HealthAnswer]:
    """Return one check of the answers to a question."""
    second = (f"nodes.second-address.{question.family.value.lower()}", "node-ports.all-addresses")
    others = second if question.second_address else ()
    differences = NO_PROXY_HEALTH if about is About.PROXY else ()
    if about in (About.COUNT, About.WEIGHT) and question.local_pods:
        differences = (COUNTED_TWICE if question.targets == 1 else COUNTED_BY_TARGET,)
    of_all_ports = f"in-time.{question.family.value.lower()}.{question.place.value}"
    return Check(
        id=f"healthcheck.{of_all_ports if about is About.TIME else f'{question.key}.{about.value}'}",
        requirement=f"{requirement}.",
        level=level,
        suite=SUITE,
        references=references,
        features=needs(*others, client=question.client, family=question.family, node=question.place),
        subject=HealthAnswer(question, about),
        expected=expected(question, about),
        fails_if=fails_if(question, about),
        asked=asked(question, about),
        differences=differences,
    )


def statuses() -> Iterator[Check]:
    """Yield checks of the status: 200 with a local pod and 503 without, on every node, for each kind of client."""
    for situation in Situation:
        for place in NODES:
            for client in CLIENTS:
                for family in FAMILIES:
                    question = Question(situation, place, client, family)
                    level, (requirement, *why) = Level.CORE, STATUS[situation, bool(question.local_pods)]
                    yield check(question, About.STATUS, level, requirement, *why)
    for family in FAMILIES:
        for place in DIALLED:
            question = Question(Situation.ONE_POD, place, OUTSIDE_1, family, second_address=True)
            yield check(question, About.STATUS, Level.EXTENDED, SECOND_ADDRESS, SERVICE_HEALTH)
        question = Question(Situation.ONE_POD, Place.EXCLUDED, OUTSIDE_1, family)
        yield check(question, About.STATUS, Level.CORE, EXCLUDED, DESIGN_HEALTH, KEP_3836)
        question = Question(Situation.ONE_POD, Place.VIP, OUTSIDE_1, family)
        yield check(question, About.STATUS, Level.RECORD, AT_VIP, DESIGN_CHECK_PATH)


def documents() -> Iterator[Check]:
    """Yield checks of document, headers, paths and methods: kube-proxy's contract with load balancers."""
    for situation in Situation:
        for place in NODES:
            for family in FAMILIES:
                question = Question(situation, place, OUTSIDE_1, family)
                for about, (requirement, *why) in CONTRACT.items():
                    yield check(question, about, Level.EXTENDED, requirement, *why)
    for place in DIALLED:
        for family in FAMILIES:
            for method, url in (("HEAD", "/healthz"), ("GET", "/"), ("HEAD", "/"), ("GET", "/any/path?with=query")):
                question = Question(Situation.ONE_POD, place, OUTSIDE_1, family, method=method, url=url)
                yield check(question, About.STATUS, Level.EXTENDED, ANY_WAY, SERVICE_HEALTH)


def truths() -> Iterator[Check]:
    """Yield checks that the status matches the nodePort: the same client probes both at the same time."""
    for situation in (Situation.ONE_POD, Situation.SEVERAL_PODS, Situation.NO_PODS, Situation.UNREADY_POD):
        for place in NODES:
            for family in FAMILIES:
                question = Question(situation, place, OUTSIDE_1, family)
                yield check(question, About.TRUTH, Level.CORE, TRUTH[bool(question.local_pods)], DESIGN_HEALTH, API_ETP)


def times() -> Iterator[Check]:
    """Yield checks of how soon each node answers at all health-check node ports that other checks probe as well."""
    for place in NODES:
        for family in FAMILIES:
            question = Question(Situation.ONE_POD, place, OUTSIDE_1, family)
            yield check(question, About.TIME, Level.EXTENDED, TIME, DESIGN_TIMES, DESIGN_BOUND)


def scenario_check(
    scenario: str,
    claim: str,
    said: Requirement,
    place: Place | None = None,
    family: Family | None = None,
    client: Client | None = OUTSIDE_1,
    also: str = "",
) -> Check[HealthScenario]:
    """Return one check of a scenario."""
    where = f".{family.value.lower()}" if family else ""
    where += f".{place.value}" if place else ""
    return Check(
        id=f"healthcheck.{scenario}.{claim}{where}",
        requirement=f"{said.sentence}.",
        level=said.level,
        suite=SUITE,
        references=said.references,
        features=needs(*filter(None, [also]), client=client, family=family, node=place),
        subject=HealthScenario(scenario, claim, place, family),
        expected=said.expected,
        fails_if=said.fails_if,
        differences=(COUNTED_TWICE,) if (scenario, claim) == ("placement", "count") else (),
    )


def while_endpoints_change() -> Iterator[Check]:
    """Yield checks of scenarios: changes of other Services, random placement, slow termination, cordoned nodes."""
    for family in FAMILIES:
        for place in NODES:
            yield scenario_check("stable", "never-wrong", STABLE, place, family)
            yield scenario_check("placement", "status", PLACEMENT, place, family)
            yield scenario_check("placement", "prompt", PLACEMENT_PROMPT, place, family)
            yield scenario_check("placement", "count", PLACEMENT_COUNT, place, family)
        for claim, said in TERMINATING.items():
            yield scenario_check("terminating", claim, said, Place.ENDPOINT_NODE, family, also="nodes.three")
        for place in DIALLED:
            yield scenario_check("cordoned", "status", CORDONED, place, family, also="disruptive")


def life_cycle() -> Iterator[Check]:
    """Yield checks of the life cycle of health-check node ports: allocation, use, release."""
    for claim, said in LIFE_CYCLE.items():
        yield scenario_check("lifecycle", claim, said, client=OUTSIDE_1 if claim in LISTENING else None)


CHECKS: tuple[Check, ...] = (
    *statuses(),
    *documents(),
    *truths(),
    *times(),
    *while_endpoints_change(),
    *life_cycle(),
    *profile_figures.CHECKS,
)
