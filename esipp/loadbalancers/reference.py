"""The reference load balancer's report: its view of the nodes' health, and its decisions as they happen.

The contract is images/loadbalancer/README.md. Its clock is CLOCK_MONOTONIC of the machine it runs on, which is ours
where the cluster is kind.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import requests

from esipp.base.errors import HarnessError
from esipp.checks.model import Family
from esipp.checks.profile import Figure, Grade, HealthCheck, HealthChecks, LoadBalancer, Source
from esipp.loadbalancers.detection import Detected

ADMIN_LABEL = "esipp.dev/load-balancer"
SERVER_LABEL = "esipp.dev/balances"
DEFAULT = "default"
"""The setting that names the class of Services that name none: then it is the cluster's own load balancer."""
ASK_SECONDS = 15.0
SILENCE_SECONDS = 10.0  # the stream has a sign of life every two
DOCKER_SECONDS = 30.0
Sink = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Reference:
    """A reference load balancer that runs.

    Args:
        container: the name of its container.
        addresses: its own address of each family, which a proxied backend sees; no VIP is among them.
        port: of its admin endpoint.
        image: the image it runs, by name.
        image_id: the same by docker's id.
    """

    container: str
    addresses: dict[Family, str]
    port: int
    image: str = ""
    image_id: str = ""

    def view(self) -> dict[str, Any]:
        """Ask what it knows: settings, Services, their VIPs, the nodes' health.

        Raises:
            HarnessError: it does not answer.
        """
        with self._get("view", ASK_SECONDS) as answer:
            try:
                view: dict[str, Any] = answer.json()
            except requests.RequestException as error:
                raise self._silent(error) from error
        return view

    def stream(self, after: int, sink: Sink) -> "Stream":
        """Have the sink called with every decision after a number, in a thread, until the handle is closed.

        Returns once the balancer has begun to send: what it decides from then on is not missed.

        Raises:
            HarnessError: it does not answer.
        """
        answer = self._get(f"decisions?after={after}", SILENCE_SECONDS)
        lines = answer.iter_lines()
        try:
            next(lines, None)
        except requests.RequestException as error:
            answer.close()
            raise self._silent(error) from error
        return Stream(answer, lines, sink, self._named, self._hint)

    def _get(self, what: str, seconds: float) -> requests.Response:
        """Ask at the first address, by no proxy that the environment names; the body is still to be read."""
        address = next(iter(self.addresses.values()))
        host = f"[{address}]" if ":" in address else address
        session = requests.Session()
        session.trust_env = False
        try:
            answer = session.get(f"http://{host}:{self.port}/{what}", timeout=seconds, stream=True)
        except requests.RequestException as error:
            raise self._silent(error) from error
        if answer.status_code != HTTPStatus.OK:
            answer.close()
            raise HarnessError(f"{self._named} answers {answer.status_code}.", self._hint)
        return answer

    def _silent(self, error: Exception) -> HarnessError:
        return HarnessError(f"{self._named} does not answer: {error!r}.", self._hint)

    @property
    def _named(self) -> str:
        return f"The reference load balancer (container {self.container})"

    @property
    def _hint(self) -> str:
        return f"docker logs {self.container}"


class Stream:
    """Decisions that come; ``check`` and ``close`` raise what went wrong meanwhile."""

    def __init__(
        self,
        answer: requests.Response,
        lines: Iterator[bytes],
        sink: Sink,
        named: str,
        hint: str,
    ) -> None:
        self._answer, self._lines, self._sink = answer, lines, sink
        self._named, self._hint = named, hint
        self._error: HarnessError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reference load balancer", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self._lines:
                if self._closing.is_set():
                    return
                if not line.strip():
                    continue  # a sign of life
                decision = json.loads(line)
                if decision.get("kind") == "lost":
                    self._fail(f"dropped {decision['lost']} decisions before esipp read them")
                    return
                self._sink(decision)
            self._fail("closed its stream of decisions")
        except Exception as error:  # the sink's as well: check and close raise it
            self._fail(f"stopped reporting its decisions: {error!r}")

    def _fail(self, what: str) -> None:
        if not self._closing.is_set():
            self._error = HarnessError(f"{self._named} {what}.", self._hint)

    def check(self) -> None:
        """Make sure that nothing was missed so far.

        Raises:
            HarnessError: the stream broke, or decisions are lost.
        """
        if self._error:
            raise self._error

    def close(self) -> None:
        """End the stream; nothing comes after this.

        Raises:
            HarnessError: the stream broke before, or decisions are lost.
        """
        self._closing.set()
        with contextlib.suppress(OSError, RuntimeError):  # it has ended by itself
            self._answer.raw.shutdown()  # wakes the reader
        self._thread.join(SILENCE_SECONDS)
        self._answer.close()
        self.check()


def find(network: str, server: str) -> Reference | None:
    """Find the reference load balancer of a cluster among the containers on the nodes' docker network.

    Args:
        network: the docker network.
        server: URL of the cluster's API server, as the kubeconfig has it.
    """
    names = _docker("ps", "--filter", f"label={SERVER_LABEL}={server}", "--format", "{{.Names}}").split()
    for name in names:
        container = json.loads(_docker("inspect", name) or "[{}]")[0]
        there = container.get("NetworkSettings", {}).get("Networks", {}).get(network)
        port = (container.get("Config", {}).get("Labels") or {}).get(ADMIN_LABEL, "")
        if there and port.isdigit():
            own = {Family.IPV4: there.get("IPAddress"), Family.IPV6: there.get("GlobalIPv6Address")}
            addresses = {family: address for family, address in own.items() if address}
            image = str((container.get("Config") or {}).get("Image") or "")
            return Reference(name, addresses, int(port), image, str(container.get("Image") or ""))
    return None


def _docker(*arguments: str) -> str:
    """What docker prints, nothing where it is not there or has nothing to say."""
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=DOCKER_SECONDS, check=False
        )
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        sentence = f"Timed out after {DOCKER_SECONDS:.0f} s waiting for docker {arguments[0]}."
        raise HarnessError(sentence, "docker info") from None
    return done.stdout if done.returncode == 0 else ""


# ----------------------------------------------------------------------------------- as the cluster's own load balancer
HOW = "the reference load balancer reports that it serves Services without a class"
SOURCE = Source(Grade.DOCUMENTED, "reported by the reference load balancer (GET /view)")


def as_it_runs(detected: Detected, known: Iterable[LoadBalancer], settings: Mapping[str, Any]) -> Detected:
    """The detected load balancer with live figures, if the reference load balancer is the cluster's own.

    Args:
        detected: what was named or found so far.
        known: the profiles that there are.
        settings: the reference load balancer's, as it tells them; empty where there is none.
    """
    served = f"esipp.dev/{settings.get(DEFAULT)}"
    profile = next((each for each in known if served in each.found.classes), None)
    if profile is None or (detected.named_profile is not None and detected.named_profile.name != profile.name):
        return detected
    checks = (_as_reported(each, settings) for each in (profile.local, profile.cluster))
    running = replace(profile, check=HealthChecks(*checks))
    if detected.named:
        return replace(detected, profiles=(running,))
    return replace(detected, profiles=(running,), how=HOW, itself=True)


def _as_reported(check: HealthCheck, settings: Mapping[str, Any]) -> HealthCheck:
    """A health check with the reported figures."""

    def figure(name: str) -> Figure[Any] | None:
        before: Figure[Any] | None = getattr(check, name)
        return Figure(settings[name], (SOURCE,)) if name in settings else before

    return replace(
        check,
        period=figure("period"),
        timeout=figure("timeout"),
        healthy=figure("healthy"),
        unhealthy=figure("unhealthy"),
    )
