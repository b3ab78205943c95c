"""The Lease of a run: it is made, renewed while the run goes on, and no longer; what goes wrong is noted once."""

import threading
from collections.abc import Callable
from typing import cast

import pytest

from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, RUN_LABEL
from esipp.cluster import leases
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.leases import NAME, Heartbeat, fresh_until, lease, path_of
from esipp.cluster.namespaces import owner
from esipp.testbed import manifests
from esipp.testbed.testbed import Testbed
from tests.unit.test_testbed import ROLES
from tests.unit.world import topology

RUN = "0101-000000-aaaa"
SPACE = f"esipp-{RUN}"
SOON = 10.0
REFUSED = ApiError(403, "Forbidden", "leases is forbidden", "POST /leases")


class Server:
    """Takes Leases; ``trouble`` is raised in answer to a renewal, or, at once, to the making."""

    context = "home"

    def __init__(self, *, making: Exception | None = None) -> None:
        self.making, self.trouble = making, cast("Exception | None", None)
        self.made: list[tuple[str, Json]] = []
        self.renewed: list[Json] = []
        self.asked = threading.Semaphore(0)

    def create(self, path: str, body: Json) -> Json:
        if self.making and path.endswith("/leases"):
            raise self.making
        self.made.append((path, body))
        return body

    def list(self, _collection: str, **_: str) -> list[Json]:
        return [{"metadata": {"name": SPACE, "labels": {RUN_LABEL: RUN}}}]

    def request(self, method: str, path: str, *, body: Json, content: str, read_timeout: float) -> Json:
        assert (method, path) == ("PATCH", f"{path_of(SPACE)}/{NAME}")
        assert content == "application/merge-patch+json"
        assert read_timeout <= leases.EVERY / 2
        self.asked.release()
        if self.trouble:
            raise self.trouble
        self.renewed.append(body)
        return body

    def wait(self, times: int) -> None:
        """Until so many renewals were asked for."""
        for _ in range(times):
            assert self.asked.acquire(timeout=SOON)


def heartbeat(server: Server, note: Callable[[str], object] = str) -> Heartbeat:
    return Heartbeat(cast(Cluster, server), SPACE, RUN, "host/7", note)


OTHERS: set[threading.Thread] = set()
"""Threads of stages that other tests set and never struck."""


@pytest.fixture(autouse=True)
def apart() -> None:
    OTHERS.update(threading.enumerate())


def beating() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "esipp-lease" and thread not in OTHERS]


def test_the_lease_says_who_holds_it_and_where() -> None:
    made = lease(RUN, f"host/7/{RUN}", 1_800_000_000.25)
    assert made["metadata"]["name"] == "esipp-run"
    assert made["metadata"]["labels"] == {**MANAGED_BY, RUN_LABEL: RUN}
    assert made["metadata"]["annotations"] == {leases.MACHINE: leases.machine()}
    assert made["spec"] == {
        "holderIdentity": f"host/7/{RUN}",
        "leaseDurationSeconds": 60,
        "acquireTime": "2027-01-15T08:00:00.250000Z",
        "renewTime": "2027-01-15T08:00:00.250000Z",
    }
    assert fresh_until(made) == 1_800_000_060.25


@pytest.mark.parametrize(("renewed", "until"), [("", 60.0), ("nonsense", 60.0), ("1970-01-01T00:00:10Z", 70.0)])
def test_what_makes_no_sense_is_stale(renewed: str, until: float) -> None:
    made = lease(RUN, "host/7", 0.0)
    made["spec"]["renewTime"] = renewed
    assert fresh_until(made) == until


def test_it_is_renewed_well_before_it_ends() -> None:
    assert leases.EVERY * 3 < leases.DURATION


def test_it_is_renewed_until_the_end_and_no_thread_stays() -> None:
    server = Server()
    held = heartbeat(server)
    assert held.begin(every=0.01)
    assert [path for path, _ in server.made] == [path_of(SPACE)]
    server.wait(3)
    assert len(beating()) == 1
    held.end()
    assert beating() == []
    before = len(server.renewed)
    assert before >= 2
    held.end()  # twice does no harm
    assert len(server.renewed) == before
    assert all(list(each["spec"]) == ["renewTime"] for each in server.renewed)


@pytest.mark.parametrize("trouble", [REFUSED, UnreachableError("away")])
def test_without_the_right_to_one_the_run_goes_on_and_says_so_once(trouble: Exception) -> None:
    said: list[str] = []
    held = heartbeat(Server(making=trouble), said.append)
    assert not held.begin(every=0.01)
    assert beating() == []
    held.end()
    (line,) = said
    assert line.startswith(f"Cannot create the run's Lease: {trouble}.")


def test_renewals_that_fail_are_noted_once_it_has_ended_and_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    server = Server()
    held = heartbeat(server, said.append)
    held.begin(every=0.01)
    server.trouble = UnreachableError("away")
    server.wait(5)
    assert said == [], "it is still good"
    monkeypatch.setattr(leases, "DURATION", 0)
    server.wait(5)
    server.trouble = None
    server.wait(3)
    held.end()
    assert said == ["The Lease was not renewed for 0 s: away"]
    assert server.renewed, "it goes on trying"


def test_the_testbed_holds_one_from_the_namespace_on_until_it_is_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    at_removal: list[int] = []
    monkeypatch.setattr("esipp.testbed.testbed.wait_for_account", lambda cluster, name: None)
    monkeypatch.setattr("esipp.testbed.testbed.remove_namespace", lambda *_: at_removal.append(len(beating())))
    monkeypatch.setattr(Testbed, "pods_for", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))  # SIGINT, or SIGTERM
    server = Server()
    testbed = Testbed(cast(Cluster, server), RUN, "image", topology().nodes, ROLES, hosted=False)
    with pytest.raises(KeyboardInterrupt):
        testbed.set_up([])
    space = manifests.namespace(SPACE, RUN, owner(), manifests.RESTRICTED)
    assert [path for path, _ in server.made] == ["/api/v1/namespaces", path_of(SPACE)]
    assert server.made[0][1] == space
    assert server.made[1][1]["spec"]["holderIdentity"] == f"{owner()}/{RUN}"
    assert len(beating()) == 1
    testbed.tear_down()
    assert at_removal == [0], "nothing is renewed any more in a namespace that goes"


def test_this_machine_is_distinguished_from_others() -> None:
    assert leases.machine() == leases.machine()
    assert len(leases.machine()) == 16


def test_a_machine_without_proc_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("esipp.cluster.leases.Path.read_text", gone)
    assert leases.machine() == ""
