"""The reference load balancer's report: its view of the nodes' health, and its decisions as they happen.

The contract is images/loadbalancer/README.md. Its clock is CLOCK_MONOTONIC of the machine it runs on, which is ours
where the cluster is kind.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from esipp.base.errors import HarnessError
from esipp.checks.model import Family

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
        connection = self._connect(ASK_SECONDS)
        try:
            connection.request("GET", "/view")
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != http.client.OK:
                raise HarnessError(f"{self._named} answers {answer.status}.", self._hint)
            view: dict[str, Any] = json.loads(body)
            return view
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise HarnessError(f"{self._named} does not answer: {error!r}.", self._hint) from error
        finally:
            connection.close()

    def stream(self, after: int, sink: Sink) -> Stream:
        """Have the sink called with every decision after a number, in a thread, until the handle is closed.

        Returns once the balancer has begun to send: what it decides from then on is not missed.

        Raises:
            HarnessError: it does not answer.
        """
        connection = self._connect(SILENCE_SECONDS)
        try:
            connection.request("GET", f"/decisions?after={after}")
            sock = connection.sock  # the answer owns it from here on
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise HarnessError(f"{self._named} answers {answer.status}.", self._hint)
            answer.readline()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise HarnessError(f"{self._named} does not answer: {error!r}.", self._hint) from error
        except HarnessError:
            connection.close()
            raise
        return Stream(answer, sock, sink, self._named, self._hint)

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        """Connect to the first address; plain, by no proxy that the environment names."""
        return http.client.HTTPConnection(next(iter(self.addresses.values())), self.port, timeout=seconds)

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
        answer: http.client.HTTPResponse,
        sock: socket.socket,
        sink: Sink,
        named: str,
        hint: str,
    ) -> None:
        self._answer, self._socket, self._sink = answer, sock, sink
        self._named, self._hint = named, hint
        self._error: HarnessError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reference load balancer", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self._answer:
                if self._closing.is_set():
                    return
                if not line.strip():
                    continue  # a sign of life
                decision = json.loads(line)
                if decision.get("kind") == "lost":
                    self._fail(f"dropped {decision['lost']} decisions before they were read")
                    return
                self._sink(decision)
            self._fail("closed its stream of decisions")
        except Exception as error:  # the sink's as well: told by check and close
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
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader
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
        told = json.loads(_docker("inspect", name) or "[{}]")[0]
        there = told.get("NetworkSettings", {}).get("Networks", {}).get(network)
        port = (told.get("Config", {}).get("Labels") or {}).get(ADMIN_LABEL, "")
        if there and port.isdigit():
            own = {Family.IPV4: there.get("IPAddress"), Family.IPV6: there.get("GlobalIPv6Address")}
            addresses = {family: address for family, address in own.items() if address}
            image = str((told.get("Config") or {}).get("Image") or "")
            return Reference(name, addresses, int(port), image, str(told.get("Image") or ""))
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
