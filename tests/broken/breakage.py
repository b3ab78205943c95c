"""A break, the checks that must notice it, and the comparison with a run of the suite."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum

from esipp.base.errors import ExitCode
from esipp.checks.check import Check, is_about
from esipp.checks.connections import OnConnections
from esipp.checks.path import OnPath, PathCheck
from esipp.ledger.run import DEFAULT_MOVES
from tests.broken.nodes import Nodes, Placed, Result


class Group(StrEnum):
    """The broken part; one folder of breaks/ each."""

    SOURCE = "source"
    DELIVERY = "delivery"
    HEALTH = "health"
    BALANCERS = "balancers"
    COMPATIBILITY = "compatibility"
    NODES = "nodes"
    CHANGES = "changes"
    HARMLESS = "harmless"


KUBE_PROXY, CILIUM = "kube-proxy", "cilium"
DISRUPTIVE = "disruptive"
"""The feature of checks that run only with ``--allow-disruptive``."""

SHOWN = 8
"""Wrong checks, and missed ones, that a text names at most."""

RED = frozenset({"fail", "flaky"})
KNOWN = frozenset({"known"})
UNKNOWN = frozenset({"inconclusive", "error"})
"""The statuses of checks about which a run says nothing."""


@dataclass(frozen=True)
class RunOptions:
    """The run on the broken cluster: suites, limited to checks with ids that contain one of ``checks``.

    Args:
        suites: the suites.
        checks: parts of ids; empty for all checks of these suites.
        samples: connections per path.
        moves: endpoint changes up, and as many down.
        disruptive: whether the run may be disruptive.
        own: options that make the reference load balancer the cluster's default, so that its checks count for the
            verdict; empty if the lane's own load balancer serves Services without a class.
        options: more options of ``esipp run``. None of them may change which checks are binding.
    """

    suites: tuple[str, ...]
    checks: tuple[str, ...] = ()
    samples: int = 20
    moves: int = DEFAULT_MOVES
    disruptive: bool = False
    own: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[tuple[str, ...], ...]:
        """The key for sharing a run of the healthy cluster."""
        return self.suites, self.own, self.options


def no_check(check: Check) -> bool:
    """No check."""
    return False


def path_checks(notices: Callable[[PathCheck], bool]) -> Callable[[Check], bool]:
    """The path checks that match a condition."""
    return lambda check: is_about(check, OnPath) and notices(check)


Apply = Callable[[Nodes], AbstractContextManager[Placed]]
"""A context manager that breaks the cluster, and always repairs it."""


@dataclass(frozen=True)
class Break:
    """One way to break a cluster, or (``Group.HARMLESS``) a legitimate difference that must not fail.

    Args:
        name: the name, also for ``ci/test --broken NAME``.
        group: the broken part.
        what: the break in one sentence, for docs/broken.md.
        run: the run on the broken cluster.
        apply: a context manager that breaks the cluster, and always repairs it.
        notices: whether a check must notice, with one of the statuses in ``says``.
        names: a regular expression that the diagnosis of the noticing checks must match.
        says: the statuses of a check that notices.
        opens: whether a check becomes ``inconclusive``, because a related check or its control fails.
        may: whether a check may have any status, because the same fault affects it in some runs.
        unsure: whether a check may be ``inconclusive`` in some runs; it may not fail.
        share: the share of right checks that always notice; less than all only if chance decides.
        scoped: it affects only the Services of its own run, so that others can run in parallel; else it needs the
            cluster alone.
        at_once: it must be in place before the measurement starts; else it only takes effect during a scenario.
        fixed: whether every ``.ci/run`` includes it.
        data_planes: the service proxies that it breaks. Most breaks are netfilter rules or stop kube-proxy, which do
            not affect Services under Cilium.
    """

    name: str
    group: Group
    what: str
    run: RunOptions
    apply: Apply
    notices: Callable[[Check], bool]
    names: str = ""
    says: frozenset[str] = RED
    opens: Callable[[Check], bool] = no_check
    may: Callable[[Check], bool] = no_check
    unsure: Callable[[Check], bool] = no_check
    share: float = 1.0
    scoped: bool = False
    at_once: bool = True
    fixed: bool = False
    data_planes: tuple[str, ...] = (KUBE_PROXY,)


@dataclass(frozen=True)
class Unnoticed:
    """A break that no check can notice, with the reason."""

    name: str
    group: Group
    what: str
    why: str


@dataclass
class Score:
    """The result of one break.

    Args:
        name: the name of the break.
        asked: number of judged checks in the run.
        must: number of checks that must notice.
        right: number of these that noticed.
        wrong: checks that changed although they must not, with their statuses on the healthy and the broken cluster.
        missed: checks that did not notice although they must, with their statuses.
        named: number of noticing checks that name the cause.
        exit_code: the exit code of the run.
        seconds: the duration of the run.
        healthy: the duration of the same run on the healthy cluster; 0 if only a larger one was made.
        said: the printed diagnosis, shortened.
        repeated: the reason why an earlier run with this break does not count, if any.
    """

    name: str
    asked: int = 0
    must: int = 0
    right: int = 0
    wrong: dict[str, tuple[str, str]] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)
    named: int = 0
    exit_code: int = 0
    seconds: float = 0.0
    healthy: float = 0.0
    said: str = ""
    good: bool = False
    repeated: str = ""

    def amiss(self) -> list[str]:
        """What is not as required, in words; of the checks, the first few."""
        if self.good:
            return []
        counted = f"{self.right} of {self.must} checks noticed, {self.named} with the cause, exit code {self.exit_code}"
        wrong = [f"wrong {name}: {before} -> {said}" for name, (before, said) in sorted(self.wrong.items())]
        missed = [f"missed {name}: {said}" for name, said in sorted(self.missed.items())]
        return [counted, *wrong[:SHOWN], *missed[:SHOWN]]


def hold(broken: Break, checks: Iterable[Check], healthy: Mapping[str, str], result: Result) -> Score:
    """Compare the verdicts on the broken cluster with those on the healthy one."""
    known = {check.id: check for check in checks}
    asked = {name: check for name, check in known.items() if healthy.get(name, "unsupported") != "unsupported"}
    judged = sum(said != "unsupported" for said in result.statuses.values())
    score = Score(broken.name, asked=judged, exit_code=result.exit_code, seconds=result.seconds)
    diagnoses: dict[str, int] = {}
    hit = {check.subject.path for check in asked.values() if is_about(check, OnPath) and broken.notices(check)}
    for name, said in result.statuses.items():
        if name in known and DISRUPTIVE in known[name].features and not broken.run.disruptive:
            continue  # the run of the healthy cluster was allowed more
        check, before = asked.get(name), healthy[name]
        if check is not None and broken.notices(check):
            score.must += 1
            if said in broken.says:
                score.right += 1
                diagnosis = result.likely.get(name, "")
                score.named += result.names(name, broken.names)
                diagnoses[diagnosis] = diagnoses.get(diagnosis, 0) + 1
            else:
                score.missed[name] = said
        elif check is not None and broken.opens(check):
            if said != "inconclusive":
                score.wrong[name] = (before, said)
        elif check is not None and is_about(check, OnConnections) and hit.intersection(check.subject.dialled):
            continue  # what its paths' own checks notice may show there, too
        elif said != before and not _undecided_before(before, said) and not (check and _allowed(broken, check, said)):
            score.wrong[name] = (before, said)
    score.said = max(diagnoses, key=lambda diagnosis: diagnoses[diagnosis], default="")
    red = broken.group is not Group.HARMLESS
    code = ExitCode.NOT_CONFORMANT if red else ExitCode.CONFORMANT
    enough = score.right >= broken.share * score.must and (score.must > 0 or not red)
    named = score.named > 0 or not broken.names or not score.must
    score.good = enough and named and not score.wrong and score.exit_code == code
    return score


def not_counted(result: Result, score: Score, *, alone: bool) -> str:
    """Why a run does not count, so that its break runs once more, alone; empty if it counts.

    A run next to another one loses single connections of healthy paths, and is late: with two on two cores, one run in
    18 twice in CI (a lost connection, 2026-11-24; a policy change that was not prompt, 2026-11-26), and one of 55 by
    hand. A check that passes on the broken cluster counts all the same. Alone, every fault counts.
    """
    if not result.statuses:
        return next((line for line in result.text.splitlines() if line.startswith("esipp: ")), "no reason given")
    wrong, missed = {said for _, said in score.wrong.values()}, set(score.missed.values())
    explained = (wrong or missed) and wrong <= RED | UNKNOWN and missed <= UNKNOWN
    return f"it ran next to another break, and {'; '.join(score.amiss())}" if explained and not alone else ""


def _allowed(broken: Break, check: Check, said: str) -> bool:
    """Whether a check that need not notice may have this status."""
    return broken.may(check) or (said == "inconclusive" and broken.unsure(check))


def _undecided_before(before: str, said: str) -> bool:
    """Whether the check is acceptable: undecided on the healthy cluster, and not red on the broken one."""
    return before in UNKNOWN and said not in RED
