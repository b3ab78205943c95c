"""One way to break a cluster, the checks that must notice it, and how a run of the suite is held against that."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum

from esipp.base.errors import ExitCode
from esipp.checks.check import Check
from esipp.checks.path import PathCheck
from esipp.ledger.run import DEFAULT_MOVES
from tests.broken.nodes import Nodes, Placed, Result


class Group(StrEnum):
    """What is broken; a folder of breaks/ each."""

    SOURCE = "source"
    DELIVERY = "delivery"
    HEALTH = "health"
    BALANCERS = "balancers"
    COMPATIBILITY = "compatibility"
    HARMLESS = "harmless"


KUBE_PROXY, CILIUM = "kube-proxy", "cilium"
DISRUPTIVE = "disruptive"
"""The feature of checks that are asked with ``--allow-disruptive`` only."""

RED = frozenset({"fail", "flaky"})
KNOWN = frozenset({"known"})


@dataclass(frozen=True)
class Asked:
    """What is run on the broken cluster: suites, and of their checks those whose ids contain one of ``rows`` (all).

    Args:
        suites: which suites.
        checks: parts of ids; empty for all checks of these suites.
        samples: connections a path.
        moves: of pods, up and as often down.
        disruptive: whether what others would notice is allowed.
        own: options by which the reference load balancer serves Services that name no class, so that it is the
            cluster's own and its checks are part of the verdict; none where the lane's own one serves them.
        options: more options of ``esipp run``. None of them may change what binds.
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
        """What has to be the same for two to share a run of the healthy cluster."""
        return self.suites, self.own, self.options


def nobody(check: Check) -> bool:
    """No check."""
    return False


def path_checks(notices: Callable[[PathCheck], bool]) -> Callable[[Check], bool]:
    """Of all checks, those that are paths and of which this holds."""
    return lambda check: isinstance(check, PathCheck) and notices(check)


@dataclass(frozen=True)
class Break:
    """One way to break a cluster, or (``Group.HARMLESS``) a legitimate difference that must not fail.

    Args:
        name: for people and for ``ci/test --broken NAME``.
        group: what is broken.
        what: the same in one sentence, for docs/broken.md.
        asked: what is run while it is broken.
        apply: breaks the cluster for as long as its context lasts, and heals it whatever happens.
        notices: whether a check must say one of ``says``.
        names: a regular expression: what the diagnosis of the checks that notice must say of the cause.
        says: what a check says that notices.
        opens: whether a check cannot be decided then (``inconclusive``): the check beside it, or its control, fails.
        may: whether a check may say anything, because it follows from the same fault, but not in every run.
        unsure: whether a check may be undecided (``inconclusive``) in some runs; it may not fail.
        share: of the checks that must notice, how many surely do; less than all only where chance decides.
        scoped: it touches nothing but the Services of the one run that is held against it, so that others can run
            beside; else it has the cluster for itself.
        at_once: it must be in place before anything is observed; else it only comes while something is done.
        fixed: one of those that every run of ``.ci/run`` tries.
        data_planes: the lanes' service proxies that it breaks. Most breaks are rules of netfilter or stop kube-proxy,
            which Services under Cilium never meet.
    """

    name: str
    group: Group
    what: str
    asked: Asked
    apply: Callable[[Nodes], AbstractContextManager[Placed]]
    notices: Callable[[Check], bool]
    names: str = ""
    says: frozenset[str] = RED
    opens: Callable[[Check], bool] = nobody
    may: Callable[[Check], bool] = nobody
    unsure: Callable[[Check], bool] = nobody
    share: float = 1.0
    scoped: bool = False
    at_once: bool = True
    fixed: bool = False
    data_planes: tuple[str, ...] = (KUBE_PROXY,)


@dataclass(frozen=True)
class Unnoticed:
    """A way to break a cluster that no run here can notice, and why."""

    name: str
    group: Group
    what: str
    why: str


@dataclass
class Score:
    """What became of one break.

    Args:
        name: of the break.
        asked: how many checks the run judged, of all that there are.
        must: how many checks had to notice.
        right: how many of them did.
        wrong: checks that changed and must not have, with what they said on the healthy and on the broken cluster.
        missed: checks that had to notice and did not, with what they said.
        named: how many checks that noticed name the cause.
        exit_code: of the run.
        seconds: that it took.
        said: what the run printed about it, briefly: the diagnosis.
        unjudged: why an earlier run on the same break came to no verdict, if one did.
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
    said: str = ""
    good: bool = False
    unjudged: str = ""


def hold(broken: Break, checks: Iterable[Check], healthy: Mapping[str, str], result: Result) -> Score:
    """Hold what the checks said on the broken cluster against what they said on the healthy one."""
    known = {check.id: check for check in checks}
    asked = {name: check for name, check in known.items() if healthy.get(name, "unsupported") != "unsupported"}
    judged = sum(said != "unsupported" for said in result.statuses.values())
    score = Score(broken.name, asked=judged, exit_code=result.exit_code, seconds=result.seconds)
    diagnoses: dict[str, int] = {}
    for name, said in result.statuses.items():
        if name in known and DISRUPTIVE in known[name].features and not broken.asked.disruptive:
            continue  # the run of the healthy cluster was allowed more
        check, before = asked.get(name), healthy[name]
        if check is not None and broken.notices(check):
            score.must += 1
            if said in broken.says:
                score.right += 1
                told = result.likely.get(name, "")
                score.named += result.names(name, broken.names)
                diagnoses[told] = diagnoses.get(told, 0) + 1
            else:
                score.missed[name] = said
        elif check is not None and broken.opens(check):
            if said != "inconclusive":
                score.wrong[name] = (before, said)
        elif said != before and not _undecided_before(before, said) and not (check and _allowed(broken, check, said)):
            score.wrong[name] = (before, said)
    score.said = max(diagnoses, key=lambda told: diagnoses[told], default="")
    red = broken.group is not Group.HARMLESS
    code = ExitCode.NOT_CONFORMANT if red else ExitCode.CONFORMANT
    enough = score.right >= broken.share * score.must and (score.must > 0 or not red)
    named = score.named > 0 or not broken.names or not score.must
    score.good = enough and named and not score.wrong and score.exit_code == code
    return score


def _allowed(broken: Break, check: Check, said: str) -> bool:
    """Whether a check that need not notice may say this."""
    return broken.may(check) or (said == "inconclusive" and broken.unsure(check))


def _undecided_before(before: str, said: str) -> bool:
    """Whether nothing can be held against it: the healthy cluster left it undecided, and the broken one is not red."""
    return before in ("inconclusive", "error") and said not in ("fail", "flaky")
