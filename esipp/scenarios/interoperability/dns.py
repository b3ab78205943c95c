"""The DNS scenario: Service names as pods on every kind of node resolve them, and what they then reach."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from esipp.base.errors import HarnessError
from esipp.base.waiting import Reading
from esipp.checks.interoperability import InteroperabilityCheck
from esipp.checks.model import (
    POD_BACKEND,
    Client,
    Entry,
    EntryKind,
    Family,
    Outcome,
    Path,
    Protocol,
    Service,
    ServiceType,
)
from esipp.judging.observation import Observation, read
from esipp.judging.topology import Topology, by_family, parse_address
from esipp.probing.prober import Job
from esipp.scenarios.health.probes import Asker
from esipp.scenarios.interoperability.evidence import Lookup, Names
from esipp.scenarios.interoperability.objects import BALANCED, HEADLESS, NAMED, NAMED_PODS, PUBLISHED
from esipp.scenarios.paths.run import ANSWER_TIMEOUT
from esipp.testbed import manifests

COUNT, SPACING = 20, 0.05
TIMEOUT = 11.0
"""Seconds a lookup may take: the resolver asks again after five, and a datagram that got lost is no answer."""

READ_SECONDS = 20.0
"""Timeout for reading a client's resolver configuration."""
PLAIN = Service(ServiceType.CLUSTER_IP)
CLUSTER_DOMAIN = re.compile(r"^search\b.*?\ssvc\.(\S+)", re.MULTILINE)


@dataclass
class Lookups:
    """Asks for every name from every pod that checks name, and dials what was resolved."""

    asker: Asker
    topology: Topology
    checks: Iterable[InteroperabilityCheck]

    def perform(self) -> Names:
        """Wait until the names are known, then ask in one window."""
        wanted = [(check.subject.claim, check.subject.client, check.subject.family) for check in self.checks]
        asked = [(claim, client, family) for claim, client, family in wanted if client and family]
        clients = {client for _, client, _ in asked}
        domain = self._domain(next(iter(sorted(clients))))
        seen = Names(domain, self._wanted(), vips=dict(self.asker.testbed.vips.get(BALANCED, {})))

        def look() -> Reading:
            resolved = self._resolve(seen, asked, 1)
            wrong = [key for key, made in resolved.items() if set(map(say, made)) != {seen.wanted[key[0], key[2]]}]
            return Reading(not wrong, f"{len(wrong)} of {len(resolved)} names do not resolve as required, {wrong[:1]}")

        # what never is right is judged as it is
        self.asker.stop.converge(look, self.asker.timeouts.names_resolve, self.asker.testbed.there)
        for key, made in self._resolve(seen, asked, COUNT).items():
            seen.resolved[key] = Counter()
            for each in made:
                seen.resolved[key][say(each)] += each.count
                if each.outcome is Outcome.ERROR:
                    seen.trouble[key] = each.detail
        self._dial(seen, asked)
        return seen

    def _domain(self, client: Client) -> str:
        """The cluster domain, from the resolver's configuration of one of our pods."""
        command = self.asker.clients.exec_command(client.name, ["cat", "/etc/resolv.conf"])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=READ_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise HarnessError(
                f"Timed out after {READ_SECONDS:.0f} s reading the resolver configuration of {client.name}.",
                "is the machine busy?",
            ) from None
        found = CLUSTER_DOMAIN.search(done.stdout)
        if found is None:
            said = " ".join((done.stdout or done.stderr).split())
            sentence = f"The resolver configuration of {client.name} has no cluster domain: {said[:200]}."
            raise HarnessError(sentence, "check the pod's /etc/resolv.conf.")
        return found[1].rstrip(".")

    def _wanted(self) -> dict[tuple[str, Family], str]:
        testbed = self.asker.testbed
        found: dict[tuple[str, Family], str] = {}

        def cluster_ip(claim: str, name: str) -> None:
            given = by_family(testbed.services[name]["spec"].get("clusterIPs") or [])
            found.update({(claim, family): say_addresses([address]) for family, address in given.items()})

        for claim in ("clusterip", "namespace", "short", "dialled"):
            cluster_ip(claim, NAMED)
        if BALANCED in testbed.services:
            cluster_ip("balancer", BALANCED)
        ready, unready = NAMED_PODS
        for claim, pods in (("headless", [ready]), ("published", [ready, unready])):
            for family in Family:
                own = [testbed.pods[pod].addresses[family] for pod in pods if family in testbed.pods[pod].addresses]
                found[claim, family] = say_addresses(own)
        return found

    def _name(self, claim: str, domain: str) -> str:
        service = {"headless": HEADLESS, "published": PUBLISHED, "balancer": BALANCED}.get(claim, NAMED)
        namespace = self.asker.testbed.namespace
        return {"short": service, "namespace": f"{service}.{namespace}"}.get(
            claim,
            f"{service}.{namespace}.svc.{domain}.",  # absolute: search domains, and who serves them, have no part
        )

    def _resolve(
        self, seen: Names, asked: Iterable[tuple[str, Client, Family]], count: int
    ) -> dict[Lookup, list[Observation]]:
        flying: dict[Lookup, Future[list[Observation]]] = {}
        for claim, client, family in asked:
            name = self._name(claim, seen.domain)
            job = Job(f"name {name}", "resolve", name, 0, count, TIMEOUT, SPACING, family=family)
            flying[claim, client.name, family] = self.asker.clients.probers[client.name].submit(job)
        return {key: self.asker.stop.result(future, self.asker.timeouts.job_ends) for key, future in flying.items()}

    def _dial(self, seen: Names, asked: Iterable[tuple[str, Client, Family]]) -> None:
        """New connections to the first address that each name was resolved to, and to the pod's own meanwhile."""
        port = int(self.asker.testbed.services[NAMED]["spec"]["ports"][0]["port"])
        own = self.asker.testbed.pods[POD_BACKEND].addresses
        flying = []
        for claim, client, family in asked:
            said = next(iter(seen.resolved.get((claim, client.name, family), {})), "").partition(",")[0]
            if claim != "dialled" or not _is_address(said):
                continue
            for kind, service, host, number, to in (
                (EntryKind.CLUSTER_IP, PLAIN, said, port, seen.dialled),
                (EntryKind.POD_IP, None, own[family], manifests.TCP, seen.direct),
            ):
                path = Path(client, Entry(kind), Protocol.TCP, family, service)
                job = Job(path.key, "tcp", host, number, COUNT, ANSWER_TIMEOUT, SPACING)
                flying.append((to, path, self.asker.clients.probers[client.name].submit(job)))
        for to, path, future in flying:
            made = self.asker.stop.result(future, self.asker.timeouts.job_ends)
            to[path.client.name, path.family] = [read(path, each, self.topology) for each in made]


def say_addresses(addresses: Iterable[str]) -> str:
    """Addresses in the one way in which they are compared here: each once, in the order of their numbers."""
    return ", ".join(map(str, sorted({parse_address(each) for each in addresses}, key=int)))


def say(lookup: Observation) -> str:
    """What a lookup gave."""
    if lookup.outcome is Outcome.ANSWERED:
        return say_addresses(lookup.addresses)
    return f"{lookup.outcome.value} ({lookup.detail.partition(':')[0]})" if lookup.detail else lookup.outcome.value


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except ValueError:
        return False
    return True
