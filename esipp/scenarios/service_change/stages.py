"""Whether a stream shows what a stage requires, while results come in and afterwards. Pure."""

from esipp.judging.timeline.steady_runs import Fits, SteadyRun, last_run
from esipp.judging.timeline.streams import ANSWERED, Sample
from esipp.judging.timeline.trouble import OURS
from esipp.scenarios.service_change.evidence import InStage, Stage, refused
from esipp.scenarios.service_change.subject import Health

STAYS, LEAST = 1.0, 3
"""Seconds, and probes, for which right answers or silence must last, up to the next stage, to count."""

WELL, SICK = "200", "503"


def served(stage: Stage) -> Fits:
    """A test whether a pod of the stage answered; it returns None for a request that was lost."""
    return lambda sample: sample.pod in stage.pods if sample.answered else None


def gone(stage: Stage) -> Fits:
    """A test whether no other pod answered."""

    def fits(sample: Sample) -> bool | None:
        if sample.outcome == OURS:
            return None
        return sample.outcome != ANSWERED or sample.pod in stage.pods

    return fits


def rejects(seen: InStage) -> bool:
    """Whether the nodes refuse requests in a stage: several, or one in its second half.

    Nodes limit the rate of their ICMP errors, so few are enough. But kube-proxy writes its tables one after the other:
    for a moment after the change, a node has neither the rule of a nodePort nor one that drops, and its kernel refuses.
    """
    times = [sample.ended for sample in seen.samples if refused(sample)]
    return len(times) > 1 or any(2 * time >= seen.stage.accepted + seen.until for time in times)


STICKS, MOST = 3.0, 10
"""Seconds, and probes, for which one pod of several must answer alone: by chance it is that in one of millions."""


def stuck(seen: InStage) -> SteadyRun | None:
    """How long one pod alone has answered until the end of a stage; None if not for long enough to be no chance."""
    last = next((sample.pod for sample in reversed(seen.samples) if sample.answered), "")
    found = last_run(
        seen.samples, seen.until, lambda sample: sample.pod == last if sample.answered else None, pauses=False
    )
    return found if found is not None and found.lasts(STICKS, MOST) else None


def reached(seen: InStage) -> set[str]:
    """The pods of a stage that have answered in it."""
    return {sample.pod for sample in seen.samples if sample.answered}.intersection(seen.stage.pods)


def shows(seen: InStage, *, is_new: bool) -> bool:
    """Whether a stream shows all that it must in a stage; ``is_new`` if each request may reach another pod."""
    if is_new and seen.stage.brief:
        return len(reached(seen)) > 1
    if is_new and seen.stage.sticky and len(seen.stage.pods) > 1:
        return stuck(seen) is not None
    return not is_new or reached(seen) == {*seen.stage.pods}


def says(stage: Stage, health: str) -> Fits:
    """A test whether a health check said what it must; it returns None for a request without an answer."""
    right = SICK if health in stage.sick else WELL
    return lambda sample: sample.outcome == right if sample.outcome in (SICK, WELL) else None


def wanted(stage: Stage, stream: str) -> Fits:
    """What a stream of this kind waits for in a stage."""
    if stream in tuple(Health):
        return says(stage, stream)
    return served(stage) if stage.pods else gone(stage)


def steady(seen: InStage, fits: Fits) -> SteadyRun | None:
    """What is right until the end of a stage; None if it does not end so, or not for long enough."""
    found = last_run(seen.samples, seen.until, fits, pauses=False)
    return found if found is not None and found.lasts(STAYS, LEAST) else None
