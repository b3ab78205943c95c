"""Common factors of failing checks that their passing siblings lack: ``over UDP, not TCP``."""

from collections.abc import Iterable, Mapping, Sequence

from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.ledger.recorded_checks import RecordedCheck


def common_factor(
    failing: Sequence[RecordedCheck], checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]
) -> str:
    """The common factors of failing checks that their passing siblings lack; empty if there are none.

    A sibling differs from a failing check on one axis only and has the same requirement. An axis is named if all
    failing checks share its value and all their tested siblings on it pass.
    """
    places = [(check.place, verdicts[check.id]) for check in checks
              if check.place and check.id in verdicts and check.level is not Level.RECORD]  # fmt: skip
    own = [check.place for check in failing if check.place]
    said = []
    for axis in own[0].axes if own else ():
        shared = {place.axes[axis] for place in own}
        if len(shared) != 1:
            continue
        (common,) = shared
        wanted = {place.siblings[axis] for place in own}
        siblings = [(p, v) for p, v in places if p.axes[axis] != common and p.siblings[axis] in wanted]
        asked = [(place, verdict) for place, verdict in siblings if verdict.status is not Status.UNSUPPORTED]
        if asked and all(verdict.status is Status.PASS for _, verdict in asked):
            others = sorted({place.axes[axis] for place, _ in asked})
            rest = " or ".join(others) if len(others) <= 2 else f"{len(others)} others"
            said.append(f"{axis.removesuffix(' family')} {common}, not {rest}")
    return "; ".join(said)
