"""The run of API checks: every chain of requests of the selected checks, each on Services of its own."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Reading
from esipp.checks.api import Chain, Requests, Verb
from esipp.checks.health import Answer
from esipp.ledger.run import Run
from esipp.scenarios.api.judge import ApiEvidence
from esipp.scenarios.api.requests import Performer
from esipp.scenarios.context import Context, kept
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker


def listen(asker: Asker, silent: int, control: int) -> Json:
    """What every node says at both ports, once all of them listen at the second; or as it is when they never do."""

    def look() -> Reading:
        said = _words(asker.everywhere(control))
        return Reading(all(words in ("200", "503") for words in said.values()), str(said))

    asker.stop.converge(look, asker.timeouts.ports_listen)
    return {"silent": _words(asker.everywhere(silent)), "control": _words(asker.everywhere(control))}


def _words(answers: dict[Node, Answer]) -> dict[str, str]:
    return {f"{place.value} {family.value}": answer.words for (place, family), answer in answers.items()}


AT_ONCE = 8
"""Number of parallel chains: the API server of a small cluster shares its processors with esipp. Chains that request a
released port again run one by one after all others: the server allocates ports at random, and every few runs one of
some two thousand ports would belong to another chain by then.
"""

TRIES = 3
"""The maximum number of attempts for a chain."""

TAKEN = "took port"
"""The part of an error that says that another Service took a port."""


def observe(context: Context) -> ApiEvidence:
    """The answers to every request."""
    run, testbed = context.run, context.testbed
    chains = {check.subject.chain.name: check.subject.chain for check in context.asked(Requests)}
    seen, stop = ApiEvidence(), Stop()
    context.gathered = lambda: seen
    performer = Performer(context.cluster, testbed.namespace, run.id, stop)
    if any(step.verb is Verb.LISTEN for chain in chains.values() for step in chain.steps):
        asker = Asker(replace(testbed, nodes=context.topology.nodes), context.clients, stop, timeouts=context.timeouts)
        performer.listen = partial(listen, asker)
    requests = sum(len(chain.steps) for chain in chains.values())
    with run.phase("edit Services", f"{len(chains)} chains of {requests} requests"):
        for at_once, these in in_turn(chains.values()):
            with ThreadPoolExecutor(at_once) as pool:
                try:
                    for each in [pool.submit(_make, run, performer, chain, seen) for chain in these]:
                        each.result()
                except BaseException:
                    stop.set()
                    raise
    return seen


def in_turn(chains: Iterable[Chain]) -> Iterator[tuple[int, list[Chain]]]:
    """The groups of chains that run in parallel, with their number of threads."""
    for at_once, alone in ((AT_ONCE, False), (1, True)):
        yield at_once, [chain for chain in chains if chain.reuses_a_port is alone]


def _make(run: Run, performer: Performer, chain: Chain, seen: ApiEvidence) -> None:
    """Perform a chain; retry with other ports if another Service took one of them."""
    with kept(chain.name, run, seen):
        for _ in range(TRIES):
            answers = seen.answers[chain.name] = {}
            performer.perform(chain, answers)
            if not any(TAKEN in answer.trouble for answer in answers.values()):
                break
