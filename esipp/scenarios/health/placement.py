"""The placement scenario: pods at random places, round by round, and every node must follow each change."""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.interrupt import StoppedError
from esipp.base.json import Json
from esipp.base.waiting import Reading
from esipp.checks.health import Answer, Place, Situation
from esipp.checks.model import OUTSIDE
from esipp.cluster.client import ApiError, Cluster
from esipp.cluster.pods import identity, is_ready
from esipp.judging.frame import UNWRITTEN
from esipp.scenarios.changing_pods import unchanged, versions_of
from esipp.scenarios.health.evidence import Followed, HealthEvidence, Node, Round
from esipp.scenarios.health.judge import NEEDED, say_count
from esipp.scenarios.health.objects import HEALTH_LABEL, SLOTS, placed, service_name, slot
from esipp.scenarios.health.probes import Asker, read_all
from esipp.testbed import manifests
from esipp.testbed.objects import Ground

ROUNDS = 20
COUNTED = 10.0
"""Seconds for which counts alone are waited for: where they are always wrong, each round would take the whole limit."""

MOST_LATE = 2
"""Rounds that some node did not follow, after which no more are played: each takes the whole limit.

After as many rounds in which a node's count alone stayed wrong, its check has failed: it is waited for only until its
wrong count lasts (``LASTS``), so that each round still has what the node says for good.
"""

LASTS = 3.0
"""Seconds for which a wrong count must be the same to count as the node's last word: three syncs of kube-proxy."""

AFTER, AFTER_SPACING = 12, 0.1
"""Answers that are held against the truth once a node has settled, before the next change: over more than a second, as
kube-proxy syncs that often."""

SLICE = 1.0
"""Seconds that our own pods are watched without a look for an interrupt."""

STABLE_COUNT, STABLE_SPACING = 500, 0.02
"""The stability window: ten seconds of changes to another Service's pods."""

STABLE_TIMEOUT = 10.0
"""Seconds for an answer: this window checks for wrong answers, not for late ones, which other checks limit to 2 s."""

Slot = tuple[Place, int]


@dataclass
class Board:
    """The slots with a pod, and the ready ones among them. ``moves`` draws the next round's changes."""

    slots: list[Slot]
    there: set[Slot]
    ready: set[Slot] = field(default_factory=set)

    def truth(self) -> dict[Place, int]:
        """The number of ready pods by place."""
        return {place: sum(1 for slot in self.ready if slot[0] is place) for place in {s[0] for s in self.slots}}

    def draw(self, chance: random.Random, number: int) -> tuple[set[Slot], set[Slot]]:
        """Which slots hold a pod and which are ready after the next round; at least one of these changes.

        Round 1 gives every node a ready pod, so that by round 3 each node had to follow in both directions, even if the
        game then stops. Rounds 3, 8, 13, 18 leave nothing ready (scaled to none), the next ones bring pods back; rounds
        5 and 15 put two on one node and nothing elsewhere, the next ones take one of them away. No round exchanges one
        pod of a node for another: while that goes on the node may say either count, and what is right now may rightly
        be wrong again.
        """
        if number == 1:
            own = ([slot for slot in self.slots if slot[0] is place] for place in sorted(self.truth()))
            first = {chance.choice(slots) for slots in own}
            return self.there | first, first
        if number % 5 == 3:
            return set(self.there), set()
        if number % 10 == 5:
            pairs = [{slot for slot in self.slots if slot[0] is place} for place in sorted(self.truth())]
            both = chance.choice([pair for pair in pairs if pair != self.ready])
            return self.there | both, both
        if number % 10 == 6 and self.ready:
            gone = chance.choice(sorted(self.ready))
            return self.there - {gone}, self.ready - {gone}
        there = set(self.there)
        for one in chance.sample(self.slots, 2):  # created and deleted: few, as each costs a start
            there ^= {one} if chance.random() < 0.5 else set()
        ready = {one for one in sorted(there) if chance.random() < 0.45}  # sorted: the seed alone decides
        for place in self.truth():
            old, new = ({slot for slot in of if slot[0] is place} for of in (self.ready, ready))
            if len(old) == len(new):  # no exchange
                there, ready = there | old, ready - new | old
        if not ready or ready == self.ready:
            idle = [one for one in self.slots if one not in self.ready]
            ready = self.ready | {chance.choice(idle)} if idle else self.ready - {chance.choice(self.slots)}
        return there | ready, ready


@dataclass
class Placement:
    """Runs the scenario, with the stability window in parallel."""

    asker: Asker
    ground: Ground
    seed: int
    _miscounted: Counter[Node] = field(default_factory=Counter)
    """The number of rounds in which a node's count stayed wrong."""

    def perform(self, seen: HealthEvidence, rounds: int = ROUNDS) -> None:
        """Play the rounds.

        Raises:
            HarnessError: our own pods did not come to be as wanted.
        """
        chance = random.Random(self.seed)
        seen.reached |= self.asker.listeners(OUTSIDE)
        slots = [(place, number) for place in placed(self.ground) for number in range(SLOTS)]
        board = Board(slots, set(slots))
        late = 0
        stable = threading.Thread(target=self._stable, args=(seen,))
        stable.start()
        try:
            for number in range(1, rounds + 1):
                self.asker.stop.check()
                there, ready = board.draw(chance, number)
                before = versions_of(*self._of_service)
                done, changed = self._change(board, there, ready)
                if stable.is_alive():
                    seen.changes += changed
                made = self._states()
                began = time.monotonic()
                status, count = self._follow(board.truth())
                moved = sorted(name for name, state in self._states().items() if state != made.get(name))
                trouble = f"{moved[0]} did not stay as it was after the change" if moved else ""
                if any(each.seconds is None for each in status.values()) and unchanged(*self._of_service, before):
                    trouble = UNWRITTEN
                seen.rounds.append(Round(number, done, board.truth(), status, count, began, trouble))
                late += any(each.seconds is None for each in status.values())
                if late >= MOST_LATE:
                    break
        finally:
            stable.join()

    @property
    def _of_service(self) -> tuple[Cluster, str, str]:
        return self.asker.testbed.cluster, self.asker.testbed.namespace, "health-placement"

    # ----------------------------------------------------------------------------------------------- the changes
    def _change(self, board: Board, there: set[Slot], ready: set[Slot]) -> tuple[str, int]:
        """Make the cluster so, and wait until the API server says it is; what was done, and how much of it."""
        gone, new = sorted(board.there - there), sorted(there - board.there)
        pods = f"/api/v1/namespaces/{self.asker.testbed.namespace}/pods"
        cluster = self.asker.testbed.cluster
        for each in gone:
            cluster.delete(f"{pods}/{_name(each)}", grace=0)
        for each in new:
            self._create(pods, each)
        closed = sorted((board.ready - ready) - set(gone))
        opened = sorted(ready - board.ready | (ready & set(new)))
        if new:
            self._await(pods, {_name(each): True for each in new}, gated=False)
        for each in closed:
            cluster.patch(f"{pods}/{_name(each)}/status", manifests.gate(False))
        for each in opened:
            cluster.patch(f"{pods}/{_name(each)}/status", manifests.gate(True))
        board.there, board.ready = set(there), set(ready)
        self._await(pods, {_name(each): each in ready for each in there}, gated=True)
        words = [
            f"{verb} {', '.join(_name(each) for each in of)}"
            for verb, of in (("deleted", gone), ("created", new), ("made unready", closed), ("made ready", opened))
            if of
        ]
        return "; ".join(words) or "nothing", len(gone) + len(closed) + len(opened)

    def _create(self, pods: str, each: Slot) -> None:
        """Create a pod; its name may be taken by the one that is on its way out."""

        def look() -> Reading:
            try:
                self.asker.testbed.cluster.create(pods, slot(self.ground, *each))
            except ApiError as refused:
                if refused.status != 409:
                    raise
                return Reading(False, refused.message)
            return Reading(True, "created")

        if not self.asker.stop.converge(look, self.asker.timeouts.round_made).held:
            raise HarnessError(f"The pod {_name(each)} cannot be created again.", "is its node healthy?")

    def _await(self, pods: str, wanted: Mapping[str, bool], *, gated: bool) -> None:
        """Wait for our own pods: containers that run, or readiness as the gates say."""

        def done(pod: Json) -> bool:
            return _ready(pod) is wanted[pod["metadata"]["name"]] if gated else is_ready(pod)

        selector = f"{HEALTH_LABEL}=placed"
        names = set(wanted)
        if not names:
            return
        limit = self.asker.timeouts.round_made
        late, deadline = sorted(names), time.monotonic() + limit.seconds
        while late and time.monotonic() < deadline:
            self.asker.stop.check()
            last = self.asker.testbed.cluster.wait_for(pods, done, names, budget=SLICE, labelSelector=selector)
            late = sorted(name for name in names if name not in last or not done(last[name]))
        if late:
            raise HarnessError(
                f"Timed out after {limit.seconds:.0f} s waiting for {limit.name}: {late[0]} is late.",
                "is its node healthy?",
            )

    def _states(self) -> dict[str, object]:
        """Each of our own pods, and since when it is ready or not: a kubelet that is late may change that by itself."""
        pods = f"/api/v1/namespaces/{self.asker.testbed.namespace}/pods"
        found = self.asker.testbed.cluster.list(pods, labelSelector=f"{HEALTH_LABEL}=placed")
        return {pod["metadata"]["name"]: identity(pod) for pod in found if not pod["metadata"].get("deletionTimestamp")}

    # ---------------------------------------------------------------------------------------------- the answers
    def _follow(self, truth: Mapping[Place, int]) -> tuple[dict[Node, Followed], dict[Node, Followed]]:
        """Probe until every node answers right three times in a row, then some more."""
        port = self.asker.testbed.services["health-placement"]["spec"]["healthCheckNodePort"]
        began = asked = time.monotonic()
        marks: dict[str, dict[Node, _Mark]] = {"status": {}, "count": {}}

        def look() -> Reading:
            nonlocal asked
            answers = self.asker.everywhere(port)
            now = time.monotonic()
            at, gap, asked = now - began, now - asked, now
            for node, answer in answers.items():
                for name, (right, words) in _against(answer, truth[node[0]]).items():
                    marks[name].setdefault(node, _Mark()).take(right, words, at, gap)
            wrong = [node for node, mark in marks["status"].items() if mark.run < NEEDED]
            if at < COUNTED:
                wrong += [node for node, mark in marks["count"].items() if self._may_settle(node, mark, at)]
            return Reading(not wrong, str(wrong[:1]))

        self.asker.stop.converge(look, self.asker.timeouts.round_followed)
        after: dict[str, dict[Node, Counter[str]]] = {"status": {}, "count": {}}
        for node, future in self.asker.on_nodes(port, count=AFTER, spacing=AFTER_SPACING).items():
            results = self.asker.stop.result(future, self.asker.timeouts.job_ends)
            for answer in read_all(results):
                for name, (right, words) in _against(answer, truth[node[0]]).items():
                    after[name].setdefault(node, Counter())["right" if right else words] += answer.count
        status, count = (
            {node: mark.followed(after[name].get(node, Counter())) for node, mark in marks[name].items()}
            for name in ("status", "count")
        )
        self._miscounted.update(node for node, each in count.items() if each.seconds is None)
        return status, count

    def _may_settle(self, node: Node, mark: "_Mark", at: float) -> bool:
        """Whether a node's count is still waited for in this round."""
        if mark.run >= NEEDED:
            return False
        return self._miscounted[node] < MOST_LATE or at - mark.changed < LASTS

    def _stable(self, seen: HealthEvidence) -> None:
        """Run the stability window; a failure only affects its own checks."""
        try:
            self._ask_another(seen)
        except StoppedError as stopped:
            seen.trouble["stable"] = str(stopped)
        except HarnessError as broken:
            seen.trouble["stable"] = broken.sentence
        except Exception as broken:
            seen.broken["stable"] = f"{type(broken).__name__}: {broken}"

    def _ask_another(self, seen: HealthEvidence) -> None:
        """Probe one Service's health check for ten seconds, while another Service's pods change."""
        service = self.asker.testbed.services.get(service_name(Situation.ONE_POD))
        if service is None:
            return
        port = service["spec"]["healthCheckNodePort"]
        asked = self.asker.on_nodes(port, count=STABLE_COUNT, spacing=STABLE_SPACING, timeout=STABLE_TIMEOUT)
        for node, future in asked.items():
            results = self.asker.stop.result(future, self.asker.timeouts.job_ends)
            seen.stable[node] = read_all(results)


@dataclass
class _Mark:
    """How long a node has been right, what it said last when it was not, and what it said once it had settled.

    ``changed`` is when it began to say what it says now.
    """

    run: int = 0
    since: float = 0.0
    last: str = ""
    again: Counter[str] = field(default_factory=Counter)
    gap: float = 0.0
    now: str = ""
    changed: float = 0.0

    def take(self, right: bool, words: str, at: float, gap: float) -> None:
        if words != self.now:
            self.now, self.changed = words, at
        self.gap = max(self.gap, gap) if self.run == 0 else self.gap
        if right:
            self.since = at if self.run == 0 else self.since
            self.run += 1
            return
        if self.run >= NEEDED:  # it had settled, and waited for other nodes
            self.again[words] += 1
        self.run, self.last = 0, words

    def followed(self, after: Counter[str]) -> Followed:
        seconds = round(self.since, 3) if self.run >= NEEDED else None
        return Followed(seconds, self.last, dict(self.again + after), round(self.gap, 3))


def _against(answer: Answer, pods: int) -> dict[str, tuple[bool, str]]:
    """An answer held against the truth: its status, and its count."""
    count = say_count(answer)
    return {
        "status": (answer.words == ("200" if pods else "503"), answer.words),
        "count": (count == f"localEndpoints {pods}", count),
    }


def _name(each: Slot) -> str:
    return f"placed-{each[0].value}-{each[1]}"


def _ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or [])
