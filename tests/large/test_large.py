"""What goes over all nodes, at 10 to 300 of them: how many API calls that takes, and whether any change is missed.

Times and memory are printed, and nothing rests on them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci import records
from ci.hermetic import golang
from ci.hermetic.store import Store
from ci.places import ROOT, places, versions
from esipp.base.json import Json
from esipp.ledger.run import DEFAULT_NODES
from tests.large.conftest import WANTED
from tests.large.page import MEASURED, table

SIZES = (10, 50, 100, 200, 300)
SECONDS = 600
PODS_A_PAGE = 500
PODS_A_NODE = 2

pytestmark = pytest.mark.timeout(SECONDS + 60)


def _programs() -> tuple[Path, Path]:
    """Where ci/conformance keeps etcd and Kubernetes once it has built them."""
    builds = (golang.etcd(), golang.kubernetes(versions()["kubernetes"]["default"]))
    store = Store(places())
    missing = [build.name for build in builds if not store.has(build.name, build.key)]
    if missing:
        pytest.skip(f"{' and '.join(missing)} of this checkout are not built: ./ci/conformance does, where it may")
    if os.geteuid() != 0:
        pytest.skip("a network namespace takes root here")
    etcd, kubernetes = (store.path(build.name, build.key) for build in builds)
    return etcd, kubernetes


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    """The demonstration, in namespaces of its own: nothing of it can leave the machine, or outlive it."""
    etcd, kubernetes = _programs()
    folder = tmp_path_factory.mktemp("large")
    alone = ["unshare", "--net", "--pid", "--fork", "--kill-child"]
    sizes = ",".join(map(str, SIZES))
    command = [sys.executable, "-B", "-m", "tests.large.demonstrate", str(folder), str(etcd), str(kubernetes), sizes]
    done = subprocess.run([*alone, *command], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: list[Json] = json.loads((folder / "measured.json").read_text())
    return found


def test_every_nodes_change_of_health_is_noticed(measured: list[Json]) -> None:
    for each in measured:
        assert each["trouble"] == ""
        assert (each["followed"], each["wrongly"]) == (each["nodes"], {})
        assert each["answered_wrong"] == each["nodes"], "all of them said 200 for a while, where none should have"


def test_kubernetes_places_the_agents_on_the_sampled_nodes_and_no_others(measured: list[Json]) -> None:
    for each in measured:
        assert sorted(each["placed"].values()) == sorted(each["sample"])
        assert len(each["sample"]) == min(each["nodes"], DEFAULT_NODES)
    largest = measured[-1]
    assert f"at random by --seed {largest['seed']}" in largest["decided"]
    assert all(name in largest["sample_said"] for name in largest["sample"])


def test_no_call_is_one_a_node(measured: list[Json]) -> None:
    """The same at every size, but for pages of the list of all pods, and for how often something was waited for."""
    few = measured[0]["calls"]
    for each in measured:
        pages = (each["nodes"] * PODS_A_NODE) // PODS_A_PAGE
        for what, count in each["calls"].items():
            if what == "get serviceaccounts":  # until the controller has made it
                continue
            most = few.get(what, 0) + (pages if what == "list pods" else 0)
            assert count <= most, f"{what} at {each['nodes']} nodes"


def test_no_health_check_is_a_call(measured: list[Json]) -> None:
    assert [each["calls_while_polling"] for each in measured] == [0] * len(measured)
    assert all(each["answers"] >= 3 * each["nodes"] for each in measured)


def test_our_count_is_that_of_the_api_servers_audit_log(measured: list[Json]) -> None:
    for each in measured:
        assert sum(each["all_calls"].values()) == each["audited"]


def test_what_was_measured(measured: list[Json], capsys: pytest.CaptureFixture[str]) -> None:
    lines = table(measured)
    assert len(lines) == len(SIZES) + 2
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    if os.environ[WANTED] == "record":
        records.write(MEASURED, map(_kept, measured))


def _kept(each: Json) -> Json:
    """What the page needs."""
    left_out = ("sample", "sample_said", "placed", "wrongly", "decided", "trouble")
    return {name: value for name, value in each.items() if name not in left_out}
