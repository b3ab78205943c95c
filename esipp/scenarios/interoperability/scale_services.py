"""The Services of the scale scenario: created and deleted in the background of other scenarios.

An API server takes its time: all nodePorts are kept in one object, which every Service changes once or twice when it
comes and again when it goes, one after the other.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.labels import UNSERVED_CLASS
from esipp.checks.interoperability import MANY_SERVICES, Kind
from esipp.checks.model import Backends, Family
from esipp.cluster.client import ApiError, UnreachableError
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed import manifests
from esipp.testbed.manifests import BACKEND_LABEL
from esipp.testbed.testbed import Testbed

AT_ONCE = 16
"""Requests to the API server under way."""


@dataclass
class ManyServices:
    """The Services in the order of creation: the kinds in turn, each in every family.

    ``made`` are the objects by name, ``began`` is when the first was asked for.
    """

    testbed: Testbed
    stop: Stop
    families: list[Family]
    number: int
    timeouts: Timeouts = TIMEOUTS
    made: dict[str, Json] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    began: float = 0.0
    _refused: threading.Event = field(default_factory=threading.Event)

    @property
    def _services(self) -> str:
        return f"/api/v1/namespaces/{self.testbed.namespace}/services"

    def create(self) -> None:
        """Make all of them, by a few threads; where one cannot be made, those that were are deleted.

        Raises:
            ApiError: the API server refused one.
            UnreachableError: it did not answer.
            StoppedError: the session ends.
        """
        wanted = list(self._manifests())
        self.began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            flying = [pool.submit(self._create, item) for item in wanted]
            try:
                for each in flying:
                    item = each.result()
                    self.made[item["metadata"]["name"]] = item
            except BaseException:
                pool.shutdown(cancel_futures=True)
                self.delete(self.kinds)
                raise

    def _manifests(self) -> Iterator[Json]:
        for kind, item in manifests_of(self.testbed.run, self.families, self.number):
            self.kinds[item["metadata"]["name"]] = kind
            yield item

    def _create(self, item: Json) -> Json:
        self.stop.check()
        return self.testbed.cluster.create(self._services, item)

    def delete(self, first: Iterable[str]) -> list[str]:
        """Delete all; some first, which alone are waited for, while the others are deleted in the background.

        What cannot be deleted goes with the namespace, and so does all that was to be deleted after it.

        Returns:
            Those of the first that surely are deleted.

        Raises:
            StoppedError: the session ends.
        """
        first, end = [*first], time.monotonic() + self.timeouts.services_deleted
        pool = ThreadPoolExecutor(AT_ONCE)
        flying = {name: pool.submit(self._delete, name) for name in dict.fromkeys((*first, *self.kinds))}
        pool.shutdown(wait=False)
        return [name for name in first if self.stop.result(flying[name], max(0.0, end - time.monotonic()))]

    def _delete(self, name: str) -> bool:
        """Whether it surely is deleted."""
        try:
            self.stop.check()
            if not self._refused.is_set():
                self.testbed.cluster.delete(f"{self._services}/{name}")
        except (ApiError, UnreachableError):
            self._refused.set()
        return not self._refused.is_set()


def manifests_of(run: str, families: Sequence[Family], number: int = MANY_SERVICES) -> Iterator[tuple[Kind, Json]]:
    """The names of this number of Services in the order of creation, each with its kind."""
    kinds = list(Kind)
    for each in range(number):
        kind = kinds[each % len(kinds)]
        yield kind, manifest(run, each, kind, families[each // len(kinds) % len(families)])


def manifest(run: str, number: int, kind: Kind, family: Family) -> Json:
    """One of the services; of one family, so that its EndpointSlices are half as many."""
    shape = kind.shape
    name, pods = f"many-{kind.value}-{number:03}", {BACKEND_LABEL: Backends.POD.value}
    balancer = UNSERVED_CLASS if kind is Kind.BALANCER_LOCAL else ""
    families = {"ipFamilyPolicy": "SingleStack", "ipFamilies": [family.value]}
    return manifests.service_over(name, run, pods, shape.type, shape.policy, balancer, **families)
