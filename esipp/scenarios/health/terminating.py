"""The terminating scenario: a node's only pod terminates and still serves, while the node says 503."""

from collections import Counter
from dataclasses import dataclass

from esipp.base.waiting import Reading
from esipp.checks.health import Answer, Place
from esipp.checks.model import OUTSIDE, Family, Outcome, Protocol
from esipp.judging.frame import UNWRITTEN
from esipp.judging.observation import Observation
from esipp.judging.topology import parse_address
from esipp.probing.prober import Job
from esipp.scenarios.changing_pods import unchanged, versions_of
from esipp.scenarios.health.evidence import Leaving
from esipp.scenarios.health.objects import GRACE
from esipp.scenarios.health.probes import Asker

WINDOW = 60
SPACING = 0.05
"""Three seconds of answers, both of the health check and of the nodePort, once the node has said 503."""


@dataclass
class Terminating:
    """Runs the scenario on the endpoint node, for each family at the same time."""

    asker: Asker

    def perform(self) -> dict[Family, Leaving]:
        """Delete the pod, wait for 503, and probe for a while."""
        testbed, stop, limits = self.asker.testbed, self.asker.stop, self.asker.timeouts
        spec = testbed.services["health-terminating"]["spec"]
        health, port = spec["healthCheckNodePort"], spec["ports"][0]["nodePort"]
        families = self.asker.families
        hosts = {family: self.asker.address(Place.ENDPOINT_NODE, family) or "" for family in families}

        def all_say(wanted: str) -> Reading:
            asked = {f: self.asker.get(OUTSIDE, host, health, timeout=1.0) for f, host in hosts.items()}
            said = {f: Answer.read(stop.result(future, limits.job_ends)[0]).words for f, future in asked.items()}
            return Reading(set(said.values()) == {wanted}, str({f.value: words for f, words in said.items()}))

        before = stop.converge(lambda: all_say("200"), limits.pod_serves)
        if not before.held:
            return {family: Leaving((), {}, 0, f"the node never answered 200: {before.state}") for family in families}
        pod = f"/api/v1/namespaces/{testbed.namespace}/pods/leaving"
        service = (testbed.cluster, testbed.namespace, "health-terminating")
        slices = versions_of(*service)
        testbed.cluster.delete(pod, grace=GRACE)
        left = stop.converge(lambda: all_say("503"), limits.pod_leaves)
        unwritten = not left.held and unchanged(*service, slices)
        prober = self.asker.clients.probers[OUTSIDE.name]
        disbelieved = {family: self._disbelieved(host) for family, host in hosts.items()}
        answers = {f: self.asker.get(OUTSIDE, h, health, count=WINDOW, spacing=SPACING) for f, h in hosts.items()}
        dials = {
            family: prober.submit(Job(f"leaving {family}", "tcp", host, port, WINDOW, 1.0, spacing=SPACING))
            for family, host in hosts.items()
        }
        windows = {}
        for family in families:
            dialled: Counter[str] = Counter()
            foreign = 0
            for each in stop.result(dials[family], limits.job_ends):
                served = each.outcome is Outcome.ANSWERED
                by = "the leaving pod" if each.backend == "leaving" else str(each.backend)
                dialled[f"served by {by}" if served else each.outcome.value] += 1
                foreign += served and each.backend == "leaving" and not self._keeps_source(each)
            read = tuple(Answer.read(result) for result in stop.result(answers[family], limits.job_ends))
            trouble = UNWRITTEN if unwritten else "" if self._still_there(pod) else _ENDED
            windows[family] = Leaving(read, dict(dialled), foreign, trouble, disbelieved[family])
        return windows

    def _disbelieved(self, host: str) -> str:
        """Why the client's address proves nothing: the node's control listener does not see it either."""
        node = self.asker.places[Place.ENDPOINT_NODE]
        port = self.asker.testbed.listeners.get(node, {}).get(Protocol.TCP)
        if not port:
            return f"there is no control listener on node {node}"
        job = Job(f"listener of {node}", "tcp", host, port, 3, 2.0)
        made = self.asker.stop.result(
            self.asker.clients.probers[OUTSIDE.name].submit(job), self.asker.timeouts.job_ends
        )
        if all(each.outcome is Outcome.ANSWERED and self._keeps_source(each) for each in made):
            return ""
        return f"the control listener of node {node} does not see {OUTSIDE.name} with its own address either"

    def _still_there(self, pod: str) -> bool:
        """Whether the pod was still terminating when the window ended: else it proves nothing."""
        return self.asker.testbed.cluster.exists(pod)

    def _keeps_source(self, each: Observation) -> bool:
        """Whether the backend saw the client by its own address."""
        return each.seen is not None and parse_address(each.seen[0]) in self.asker.clients.addresses(OUTSIDE.name)


_ENDED = "the pod ended before the window did"
