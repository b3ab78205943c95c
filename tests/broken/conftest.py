"""Fixtures for tests on a kept kind cluster: ``ci/test --broken``.

The environment names the cluster, not ``--context``, which would start a run of the suite here.
"""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ci import lane_file, loadbalancer, records
from ci.access import ClusterAccess
from ci.places import places
from tests.broken import controllers, proxies, score
from tests.broken.balancing import forget, run_metallb
from tests.broken.baselines import forget_the_cluster
from tests.broken.breakage import CILIUM, KUBE_PROXY, Break
from tests.broken.breaks import BREAKS, UNNOTICED
from tests.broken.nodes import Nodes
from tests.broken.turns import once, turn

LEFT_OUT = pytest.StashKey[list[str]]()
OTHERS = pytest.StashKey[list[str]]()
SCORES = "ESIPP_SCORES"
"""The folder of scores, from the environment, so that pytest-xdist's workers share it."""

PAGE = "ESIPP_BROKEN_PAGE"
"""The folder whose records/broken.jsonl and docs/broken.md are updated; nothing is written if it is not set."""


CONTEXT = "ESIPP_BROKEN_CONTEXT"
"""The context of the cluster to break."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip these tests without a cluster."""
    named = os.environ.get(CONTEXT) or config.getoption("context")
    return True if not named and collection_path.name.startswith("test_") else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "by_hand: takes long, or is much like another: ci/test --broken all, or by name")
    if CONTEXT in os.environ:
        if SCORES not in os.environ:
            os.environ[SCORES] = tempfile.mkdtemp(prefix="esipp-broken-")
        scores = Path(os.environ[SCORES])
        scores.mkdir(parents=True, exist_ok=True)
        if not hasattr(config, "workerinput"):
            forget_the_cluster(scores)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Report excluded breaks, as they are untested."""
    config = items[0].config
    if not config.option.keyword:  # else those that run were chosen by name
        config.stash[LEFT_OUT] = [*config.stash.get(LEFT_OUT, []), *(item.name for item in items)]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """One line, before anything runs."""
    left_out, others = len(config.stash.get(LEFT_OUT, [])), config.stash.get(OTHERS, [])
    lines = [f"{left_out} left out, ./ci/test --broken all runs them too"] if left_out else []
    return [*lines, f"{len(others)} are for a lane of another data plane: {', '.join(others)}"] if others else lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the score table, and write the page in docs if requested."""
    found = score.kept(Path(os.environ[SCORES])) if SCORES in os.environ else []
    for line in score.lines(BREAKS, found):
        terminalreporter.write_line(line)
    if PAGE in os.environ and found:
        write_page(Path(os.environ[PAGE]), found)


def write_page(folder: Path, found: list[score.Score]) -> None:
    """Write records/broken.jsonl, and docs/broken.md from it; other breaks keep their records."""
    there, kept, page = ClusterAccess.load(places()), folder / "records" / "broken.jsonl", folder / "docs" / "broken.md"
    about = {
        "cores": os.cpu_count(),
        "cluster": there.lane if there is not None else "",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    records.write(kept, score.as_records(BREAKS, found, about, records.read(kept)))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(score.page(BREAKS, UNNOTICED, records.read(kept)), encoding="utf-8")


@pytest.fixture(scope="session")
def scores() -> Path:
    """The folder of this session's scores and runs, the same for all workers."""
    return Path(os.environ[SCORES])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Exclude breaks that do not affect the kept cluster's data plane: they need another lane.

    Most are netfilter rules, or stop kube-proxy. Neither affects Services under Cilium.
    """
    there = ClusterAccess.load(places())
    if CONTEXT not in os.environ or there is None:
        return
    here = CILIUM if lane_file.load(there.lane).service_proxy == lane_file.CILIUM else KUBE_PROXY
    others = [each for each in items if here not in _data_planes(each)]
    if others:
        config.stash[OTHERS] = sorted(str(each.name) for each in others)
        items[:] = [each for each in items if each not in others]


def _data_planes(item: pytest.Item) -> tuple[str, ...]:
    """The data planes of an item's break; all for other tests."""
    broken = item.callspec.params.get("broken") if hasattr(item, "callspec") else None
    return broken.data_planes if isinstance(broken, Break) else (CILIUM, KUBE_PROXY)


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest, scores: Path) -> Nodes:
    """The nodes of the cluster as containers, repaired after earlier sessions."""
    found = Nodes.of(
        os.environ.get(CONTEXT) or request.config.getoption("context"), request.config.getoption("kubeconfig")
    )
    with once(scores, "healed") as missing:
        if missing is not None:
            with turn(found.lock, alone=True):
                found.heal()
                heal_balancer()
                run_metallb(found, 1)
                proxies.heal(found)
                controllers.heal(found)
            missing.touch()
    return found


def heal_balancer() -> None:
    """Restart the reference load balancer without leftover options of a killed session, such as faults."""
    there = ClusterAccess.load(places())
    if there is None:
        return
    if given := loadbalancer.options(there):
        loadbalancer.restart(there)
        forget(there, given)
