"""The judge of API checks: from the answers of a chain of requests to a decision. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.api import (
    Addresses,
    Answer,
    ApiCheck,
    Is,
    Quiet,
    Ref,
    Refused,
    Requests,
    Same,
    Want,
    Warned,
    at,
    is_absent,
    say_path,
    say_value,
)
from esipp.checks.check import Status, checks_about
from esipp.checks.rights import rights
from esipp.judging.frame import Decision, Interruptions, ours_failed, undecided
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.topology import family_of

NOT_OF_THE_API = (401, 403, 429, 503, 504)
"""HTTP statuses of refusals for authorization, quota or overload: they say nothing about the rules for Services."""

OF_OTHERS = ("webhook", "denied request", "etcdserver", "context deadline exceeded")
"""Texts in refusals that do not come from the API's rules, whatever their status: a cluster's own policies (a
ValidatingAdmissionPolicy denies as 422 Invalid, a webhook that fails is an InternalError), and an unreachable etcd.
"""

QUIET = ("refused", "timed out")
"""The results of asking a port where nothing answers."""

Answers = Mapping[str, Answer]


@dataclass
class ApiEvidence(Interruptions):
    """The evidence: the answers to each chain's steps, by name."""

    answers: dict[str, dict[str, Answer]] = field(default_factory=dict)


class _OpenError(Exception):
    """The evidence does not decide the check."""


def decide(check: ApiCheck, seen: ApiEvidence) -> Decision:
    """Whether every expectation holds; the decision names the first one that does not."""
    cut_short = seen.cut_short(check)
    if cut_short:
        return cut_short
    answers = seen.answers.get(check.subject.part)
    if answers is None:
        return ours_failed(check, "nothing", "the check was selected, but its requests were never sent")
    observed = []
    try:
        for given in check.subject.given:
            holds, words = _holds(given, answers)
            itself = given.step in {want.step for want in check.subject.wants}
            if not holds and not (itself and answers[given.step].refused):  # a refusal is reported as one, below
                return undecided(check, f"precondition not met after step {given.step}: {words}", words)
        for want in check.subject.wants:
            holds, words = _holds(want, answers)
            if not holds:
                return Decision(Status.FAIL, check.expected, words, f"after step {want.step}", words)
            observed.append(words)
    except _OpenError as why:
        return undecided(check, str(why), "; ".join(observed) or "nothing")
    return Decision(Status.PASS, check.expected, "; ".join(observed))


def _holds(want: Want, answers: Answers) -> tuple[bool, str]:
    """Whether an expectation holds, and what was observed.

    Raises:
        _OpenError: the evidence does not decide it.
    """
    answer = answers.get(want.step)
    if answer is None:
        raise _OpenError(f"the scenario ended before step {want.step}")
    if answer.trouble:
        raise _OpenError(answer.trouble)
    said = _said(answer) if answer.refused else ""
    if isinstance(want, Refused):
        if answer.refused is None:
            return False, "accepted: " + _shown(answer, _named_by(want))
        status, reason, message = answer.refused
        right = status in want.statuses and reason in want.reasons
        return right and all(text.lower() in message.lower() for text in want.says), said
    if answer.refused is not None:
        return False, said
    if isinstance(want, Warned):
        warned = any(want.text.lower() in each.lower() for each in answer.warnings)
        return warned is not want.absent, "; ".join(answer.warnings) or "no warning"
    if isinstance(want, Quiet):
        return _quiet(answer)
    wrong = [
        _one(answer, path) + (f" (before: {say_value(wanted)})" if isinstance(value, Same) else "")
        for path, value in want.fields
        if not _equals(at(answer.object, path), wanted := _wanted(path, value, answers))
    ]
    paths = [path for path, _ in want.fields]
    return not wrong, ", ".join(wrong) or _shown(answer, paths)


def _said(answer: Answer) -> str:
    """A refusal as text.

    Raises:
        _OpenError: the refusal does not come from the API's rules.
    """
    assert answer.refused is not None
    status, reason, message = answer.refused
    if status in NOT_OF_THE_API or any(text in message for text in OF_OTHERS):
        raise _OpenError(f"refused for a reason unrelated to the check, {reason} ({status}): {message}")
    return f"refused as {reason} ({status}): {message}"


def _wanted(path: str, value: Any, answers: Answers) -> Any:
    if isinstance(value, Ref):
        return at(answers.get(value.step, Answer()).object, value.path)
    if not isinstance(value, Same):
        return value
    before = answers.get(value.step, Answer())
    had = at(before.object, path)
    if is_absent(had):
        raise _OpenError(f"step {value.step} left no {say_path(path)} to keep")
    return had


def _equals(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Addresses):
        return isinstance(found, list) and [family_of(each).value for each in found] == [*wanted.families]
    if isinstance(wanted, Is):
        return is_absent(found) is (wanted is Is.ABSENT)
    return bool(found == wanted) and isinstance(found, bool) is isinstance(wanted, bool)


def _one(answer: Answer, path: str) -> str:
    found = at(answer.object, path)
    return f"no {say_path(path)}" if is_absent(found) else f"{say_path(path)} {say_value(found)}"


def _shown(answer: Answer, paths: list[str]) -> str:
    return ", ".join(_one(answer, path) for path in paths) or "accepted"


def _named_by(want: Refused) -> list[str]:
    return [text for text in want.says if text.startswith("spec.") and "[" not in text]


def _quiet(answer: Answer) -> tuple[bool, str]:
    """Whether no node answers at one port while every node answers at the control port.

    Dropping is as silent as refusing: kube-proxy opens the node's firewall for health-check node ports, so the firewall
    may drop packets to all other ports (kubernetes/kubernetes#97824).
    """
    silent, control = answer.object["silent"], answer.object["control"]
    for node, words in {**control, **silent}.items():
        if words.startswith("error"):
            raise _OpenError(f"the prober failed for {node}: {words}")
    deaf = [node for node, words in control.items() if words not in ("200", "503")]
    if deaf or not control:
        where = f"{deaf[0]} does not answer" if deaf else "no node was asked"
        raise _OpenError(f"silence proves nothing: {where} at the control port")
    loud = [f"{node}: {words}" for node, words in silent.items() if words not in QUIET]
    return not loud, loud[0] if loud else f"no answer on {len(silent)} node addresses"


# -------------------------------------------------------------------------------------------------------- registration
def _lacks(check: ApiCheck, seen: ApiEvidence, then: RunThen) -> str:
    """Whether the requests of a check differ; a ledger has them only as text, in the checks of its run."""
    chain = check.subject.part
    known = {each.id for each in checks_about(Requests, then.today) if each.subject.part == chain}
    made = {recorded.asked for identity, recorded in then.checks.items() if identity in known}
    tried = chain in seen.answers or chain in seen.trouble or chain in seen.broken
    return "" if tried and made == {check.asked} else f"its requests were not sent, or others were ({chain})"


SCENARIO = Scenario(
    name="api",
    suite="compatibility",
    record="compatibility",
    subjects=(Requests,),
    evidence=ApiEvidence,
    decide=decide,
    lacks=_lacks,
    phases=(Typical("edit Services", base=1, check=0.08),),
    rights=rights("get patch update", "services"),
)
