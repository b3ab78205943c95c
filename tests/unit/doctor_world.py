"""A cluster for the doctor: what it lists is said, and whether it refuses or changes what is tried by a dry run."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.app.doctor import examination
from esipp.app.doctor.examination import examine_all
from esipp.app.doctor.model import DoctorCheck, Grade, Report
from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, OWNER, RUN_LABEL
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check
from esipp.checks.rights import Right
from esipp.cluster.client import ApiError, UnreachableError
from esipp.cluster.rights import all_rights
from esipp.ledger.run import Settings
from tests.unit.rights_world import Guarded, node

CHECKS = all_checks()
IMAGE = "example.com/echo:1"
HOME = Settings(context="home", outside="none", image=IMAGE)

LISTS = frozenset(Right("list", each) for each in ("resourcequotas", "limitranges", "pods"))


def named(name: str, namespace: str = "", **more: Any) -> Json:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}


def cordoned(name: str, number: int) -> Json:
    return {**node(name, number), "spec": {"unschedulable": True}}


def starting(name: str, number: int, key: str) -> Json:
    """A Ready node with a taint."""
    return {**node(name, number), "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}


def of_run(run: str, made: str, owner: str) -> Json:
    labels = {**MANAGED_BY, RUN_LABEL: run}
    return {
        "metadata": {
            "name": f"esipp-{run}", "labels": labels, "annotations": {OWNER: owner}, "creationTimestamp": made,
        }
    }  # fmt: skip


class Asked(Guarded):
    """See the module.

    Args:
        rights: the account's.
        lists: what is there, by path.
        dry: what becomes of what is created, by the end of the path; an exception is raised.
        date: of all answers.
    """

    def __init__(
        self,
        rights: Iterable[Right] = all_rights() | LISTS,
        lists: Mapping[str, list[Json]] | None = None,
        dry: Mapping[str, Json | Exception] | None = None,
        date: str = "",
    ) -> None:
        super().__init__(rights)
        self.lists, self.dry, self.clock = dict(lists or {}), dict(dry or {}), date
        self.sent: list[tuple[str, str, Mapping[str, str]]] = []
        self.silent = ""

    def date(self) -> str:
        return self.clock

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        self.sent.append((method, path, dict(query or {})))
        if self.silent and self.silent in path:
            raise UnreachableError("no answer")
        answer = super().request(method, path, query=query, body=body)
        if method == "POST":
            made = self.dry.get(path.rpartition("/")[2], answer)
            if isinstance(made, Exception):
                raise made
            return made
        if method == "GET" and path in self.lists:
            items = self.lists[path]
            if "labelSelector" in (query or {}):
                items = [item for item in items if RUN_LABEL in (item["metadata"].get("labels") or {})]
            return {"items": items}
        return answer


def refusal(message: str, status: int = 403) -> ApiError:
    return ApiError(status, "Forbidden", message, "POST")


def examined(
    monkeypatch: pytest.MonkeyPatch, cluster: Asked, settings: Settings = HOME, checks: list[Check] | None = None
) -> Report:
    """What the doctor finds of it."""
    monkeypatch.setattr(examination, "Cluster", SimpleNamespace(of=lambda _: cluster))
    monkeypatch.setattr("esipp.app.doctor.examination.outside.left_behind", lambda _server: {})
    return examine_all(settings, CHECKS if checks is None else checks, [])


def of(report: Report, name: str) -> list[DoctorCheck]:
    return [check for check in report.checks if check.name == name]


def the(report: Report, name: str) -> DoctorCheck:
    (check,) = of(report, name)
    return check


def grades(report: Report, grade: Grade) -> set[str]:
    return {check.name for check in report.checks if check.grade is grade}
