"""The summary's section on policy changes: their number, their duration and the lost requests. Pure."""

from collections import Counter

from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.policy_change import At, FlipClaim, Flipping
from esipp.scenarios.policy_change.evidence import Seen, Window
from esipp.scenarios.policy_change.judge import end_of, followed, say_port_times, times
from esipp.scenarios.policy_change.timeline import Course, Ground, Shown

NAME = 40


def section(seen: Seen) -> list[str]:
    """The lines of the section; none without observations."""
    lines = _isolation(seen.window) if seen.window else []
    ground = seen.ground
    if ground is None or not seen.courses:
        return lines
    if lines:
        lines.append("")
    lines.append("policy changes: seconds from the patch until new connections follow the policy for good")
    lines.append(
        f"  {'':<{NAME}}" + "   ".join(f"to {to:<8}{'p50':>3}{'max':>7}{'n':>4}" for to in _DIRECTIONS) + "   lost"
    )
    for service, course in seen.courses.items():
        lines += _course(service, course, ground)
    return lines


_DIRECTIONS = (TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL)


def _isolation(window: Window) -> list[str]:
    made = Counter(name for name, _ in window.flips)
    changes = ", ".join(f"{name} {count} times" for name, count in sorted(made.items()))
    total = sum(each.count for of in window.evidence.observations.values() for each in of)
    lines = [f"isolation: {total} connections on {len(window.evidence.observations)} paths of unchanged Services"]
    lines.append(f"  policy changes in that time: {changes}" + (f"; but {window.doubt()}" if window.doubt() else ""))
    return lines


def _course(service: Flipping, course: Course, ground: Ground) -> list[str]:
    made = len(list(course.flips_made()))
    lines = [f"  {service}: {made} of {course.planned} policy changes"] if made < course.planned else []
    for at, family in course.data:
        lines.append(f"  {f'{service} {family} {at}':<{NAME}}" + _times(course, ground, at, family))
    for (at, family), why in course.obstacles.items():
        lines.append(f"  {service} {family} {at}: {why}")
    for family in Family:
        for claim in (FlipClaim.HEALTH_CLOSED, FlipClaim.HEALTH_AGAIN):
            words = say_port_times(course, ground, family, claim)
            lines += (
                [f"  {f'{service} {family} health port':<{NAME}}{claim.value.replace('-', ' ')}: {words}"]
                if words
                else []
            )
    for each in course.kept:
        kept = sum(1 for stream in each.streams if stream.samples and not end_of(stream, course))
        lines.append(f"  {f'{service} {each.family} open at the {each.at}':<{NAME}}{kept} of {len(each.streams)} kept")
    return lines


def _times(course: Course, ground: Ground, at: At, family: Family) -> str:
    phases = course.phases(at, family)
    made = followed(course, ground, at, family, strictly=True)
    columns = []
    for to in _DIRECTIONS:
        of, never = times(made, to)
        figures = f"{of.quantile(0.5):6.2f}{of.samples[-1]:7.2f}" if of.samples else f"{'-':>6}{'-':>7}"
        columns.append(f"{'':<8}{figures}{len(of.samples):>4}" + (f" ({never} never)" if never else ""))
    lost = Counter(
        phase.flip.to
        for phase in phases
        for sample in phase.samples
        if ground.shown(at, sample)[0] is Shown.NONE and at is not At.BARE_NODE
    )
    total = sum(len(phase.samples) for phase in phases)
    losses = "" if at is At.BARE_NODE else f"   {sum(lost.values())} of {total}"
    return "   ".join(columns) + losses
