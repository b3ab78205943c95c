"""An annotation of old that takes effect, on a real cluster: somebody acts upon it, and the right rows notice."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from esipp.catalog import all_rows
from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.errors import ExitCode
from esipp.manifests import OLD_ANNOTATIONS
from esipp.model import Cell, OldForm
from esipp.report.ledger import read_ledger
from esipp.rows import Row
from tests.broken.nodes import Nodes, Result

pytestmark = [pytest.mark.timeout(600), pytest.mark.by_hand]  # two whole runs of the suite

SUITE = "compatibility"
ROWS = ("annotated-", "not-heard")
"""Services that stand while they are looked at, and one that is read again a while after it was made."""

LOOK = 0.2


class OldController:
    """What a controller of 1.4 to 1.7 did: OnlyLocal in the annotation makes the policy Local.

    It acts in the namespace of one run only, which it knows from the run's ledger, and for as long as its context
    lasts. ``patched`` are the Services that it changed.
    """

    def __init__(self, cluster: Cluster, ledger: Path) -> None:
        self.cluster, self.ledger = cluster, ledger
        self.patched: set[str] = set()
        self._ended = threading.Event()

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        thread = threading.Thread(target=self._act, name="old-controller")
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _act(self) -> None:
        while not self._ended.wait(LOOK):
            run = self._run()
            with contextlib.suppress(ApiError, UnreachableError):  # the namespace comes and goes
                if run:
                    self._look(f"/api/v1/namespaces/esipp-{run}/services")

    def _run(self) -> str:
        with contextlib.suppress(OSError):
            return next((str(each["run"]) for each in read_ledger(self.ledger) if each["record"] == "header"), "")
        return ""

    def _look(self, services: str) -> None:
        for item in self.cluster.list(services):
            notes, name = item["metadata"].get("annotations") or {}, item["metadata"]["name"]
            asks = any(notes.get(key) == OldForm.ONLY_LOCAL for key in OLD_ANNOTATIONS)
            if asks and item["spec"].get("externalTrafficPolicy") != "Local":
                with contextlib.suppress(ApiError):  # gone meanwhile
                    patch = {"spec": {"externalTrafficPolicy": "Local"}}
                    self.cluster.patch(f"{services}/{name}", patch, "merge-patch")
                    self.patched.add(name)


def notices(row: Row) -> bool:
    """With Local in truth: the bare node falls silent, and the endpoint's node does not rewrite the source any more."""
    if isinstance(row, Cell):
        service = row.path.service
        annotated = service is not None and service.old_form is OldForm.ONLY_LOCAL
        return annotated and not row.id.endswith("to-endpoint-node.answers")
    return row.id.endswith(".not-heard")


@pytest.fixture(scope="module")
def healthy(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The cluster as it is: nothing goes wrong."""
    out = tmp_path_factory.mktemp("healthy") / "run"
    result = nodes.qualify(out, suites=[SUITE], rows=ROWS, binding="extended")
    assert result.worse() == {}, result.text
    assert result.exit_code == ExitCode.CONFORMANT
    return result


def test_an_annotation_that_takes_effect_is_noticed(healthy: Result, nodes: Nodes, tmp_path: Path) -> None:
    controller = OldController(nodes.cluster, tmp_path / "run" / "ledger.jsonl")
    with controller.acting():
        result = nodes.qualify(tmp_path / "run", suites=[SUITE], rows=ROWS, binding="extended")
    assert controller.patched, "nobody acted upon the annotation"
    rows = [row for row in all_rows() if healthy.statuses.get(row.id, "unsupported") != "unsupported"]
    expected = healthy.statuses | {row.id: "fail" for row in rows if notices(row)}
    told = {name: (said, expected[name]) for name, said in result.statuses.items() if said != expected[name]}
    assert told == {}, f"{result.text}\n(said, expected): {told}"
    assert "fail" in expected.values()
    assert result.exit_code == ExitCode.NOT_CONFORMANT
