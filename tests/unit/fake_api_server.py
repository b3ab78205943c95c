"""An API server that gives Services their health-check node ports, and nodes that listen there; it lies on request."""

from collections.abc import Mapping

from esipp.base.json import Json
from esipp.checks.health import Answer, Place
from esipp.checks.model import Family, Outcome
from esipp.cluster.client import ApiError
from tests.unit.health_world import NAMESPACE, say

LOW, HIGH = 30000, 30099
FIELD = "spec.healthCheckNodePort: Invalid value"


def _is_local(service: Json) -> bool:
    return service["spec"]["type"] == "LoadBalancer" and service["spec"].get("externalTrafficPolicy") == "Local"


class FakeApi:
    """What the trial needs of a cluster. ``lies`` are those of a bad server, by name.

    ``others`` are services of other namespaces; ``rivals`` says how many more times one of those takes a port just
    before us, for each service of ours by name.
    """

    def __init__(self, *lies: str) -> None:
        self.lies = set(lies)
        self.services: dict[str, Json] = {}
        self.open: dict[int, str] = {}
        self.next, self.node_port = LOW, HIGH
        self.looks = 0
        self.others: dict[str, Json] = {}
        self.rivals: dict[str, int] = {}

    # ---------------------------------------------------------------------------------------------- what is asked
    def create(self, collection: str, manifest: Json) -> Json:
        name = manifest["metadata"]["name"]
        service: Json = {"metadata": {"namespace": NAMESPACE, **manifest["metadata"]}, "spec": dict(manifest["spec"])}
        if any(port.get("nodePort") == 1 for port in service["spec"]["ports"]) and "any-range" not in self.lies:
            said = "" if "no-range" in self.lies else f" The range of valid ports is {LOW}-{HIGH}"
            raise self._refusal(422, "Invalid", f"provided port is not in the valid range.{said}")
        wanted = service["spec"].get("healthCheckNodePort")
        if wanted and not _is_local(service) and "takes-anything" not in self.lies:
            raise self._refusal(422, "Invalid", f"{FIELD}: may only be set when")
        if wanted and self.rivals.get(name):
            self.rivals[name] -= 1
            ports = {"ports": [{"port": 80, "nodePort": wanted}]}
            self.others[f"rival-{wanted}"] = {
                "metadata": {"namespace": "tenant", "name": f"rival-{wanted}"},
                "spec": {"type": "NodePort", **ports},
            }
        drawn = bool(wanted) and not all(port.get("nodePort") for port in service["spec"]["ports"])  # at worst, just it
        used = wanted in {*self._taken(), *self._taken_by_others()} or (drawn and _is_local(service))
        if used and "hands-out-twice" not in self.lies:
            said = f"failed to allocate requested HealthCheck NodePort {wanted}: provided port is already allocated"
            raise self._refusal(500, "InternalError", said)
        if wanted and "ignores-choice" in self.lies:
            del service["spec"]["healthCheckNodePort"]
        self.services[name] = service
        service["spec"]["ports"] = [
            {**port, "nodePort": port.get("nodePort") or self._allocate_node_port()}
            for port in service["spec"]["ports"]
        ]
        if self._may_have(service):
            service["spec"].setdefault("healthCheckNodePort", self._allocate())
        elif "takes-anything" not in self.lies:
            service["spec"].pop("healthCheckNodePort", None)
        self._sync()
        return self._copy(service)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "",
    ) -> Json:
        service = self._named(path)
        if method == "PUT" and "loses-on-update" in self.lies:
            self._give_another(service)
        if method == "PATCH" and content.startswith("application/apply") and "loses-on-apply" in self.lies:
            self._give_another(service)
        return self._copy(service)

    def patch(self, path: str, body: Json, kind: str) -> Json:
        service = self._named(path)
        wanted = body.get("spec", {})
        port = wanted.get("healthCheckNodePort")
        if port and "takes-a-change" not in self.lies:
            raise self._refusal(422, "Invalid", f"{FIELD}: field is immutable")
        if not wanted and "loses-on-patch" in self.lies:
            self._give_another(service)
        service["spec"] |= wanted
        if not self._may_have(service) and "keeps-the-port" not in self.lies:
            service["spec"].pop("healthCheckNodePort", None)
        self._sync()
        return self._copy(service)

    def delete(self, path: str) -> None:
        self.services.pop(path.rpartition("/")[2], None)
        self._sync()

    def list(self, path: str) -> list[Json]:
        return [self._copy(each) for each in (*self.services.values(), *self.others.values())]

    # ---------------------------------------------------------------------------------------------------- the nodes
    def everywhere(self, port: int) -> dict[tuple[Place, Family], Answer]:
        self.looks += 1
        if "nodes-fail-us" in self.lies:
            answer = Answer(Outcome.ERROR, detail="no descriptors")
        elif port not in self.open or "nobody-listens" in self.lies or ("flaps" in self.lies and self.looks % 2):
            answer = Answer(Outcome.REFUSED)
        else:
            answer = say(1, self.open[port])
        return {(place, Family.IPV4): answer for place in (Place.ENDPOINT_NODE, Place.BARE_NODE)}

    # -------------------------------------------------------------------------------------------------------- inside
    def _named(self, path: str) -> Json:
        name = path.rpartition("/")[2]
        if name not in self.services:
            raise self._refusal(404, "NotFound", f'services "{name}" not found')
        return self.services[name]

    def _may_have(self, service: Json) -> bool:
        if "gives-none" in self.lies:
            return False
        return _is_local(service) or "gives-to-all" in self.lies

    def _taken(self) -> dict[int, str]:
        ports = {name: each["spec"].get("healthCheckNodePort") for name, each in self.services.items()}
        return {port: name for name, port in ports.items() if port}

    def _taken_by_others(self) -> set[int]:
        ports = {port["nodePort"] for each in self.others.values() for port in each["spec"].get("ports", ())}
        return ports | {each["spec"].get("healthCheckNodePort", 0) for each in self.others.values()}

    def _allocate(self) -> int:
        if "one-for-all" in self.lies:
            return LOW + 7
        if "out-of-range" in self.lies:
            self.next = max(self.next, HIGH)
        self.next += 1
        return self.next

    def _allocate_node_port(self) -> int:
        self.node_port -= 1
        return self.node_port

    def _give_another(self, service: Json) -> None:
        service["spec"]["healthCheckNodePort"] = self._allocate()
        self._sync()

    def _sync(self) -> None:
        if "stays-open" in self.lies:
            self.open = {port: self.open.get(port, name) for port, name in {**self.open, **self._taken()}.items()}
        else:
            self.open = self._taken()

    def _copy(self, service: Json) -> Json:
        return {"metadata": dict(service["metadata"]), "spec": dict(service["spec"])}

    def _refusal(self, status: int, reason: str, message: str) -> ApiError:
        return ApiError(status, reason, message, "POST /services")
