"""An API server that allows what the rules of a manifest grant, and refuses all else; and the rules themselves."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from esipp.base.json import Json
from esipp.checks.catalog import HOUSE
from esipp.checks.rights import Right
from esipp.cluster.client import ApiError
from esipp.cluster.dialect import dialect_of

VERSION = "v1.36.0"
PAGE = HOUSE / "docs" / "rbac.yaml"
LESS = HOUSE / "docs" / "rbac-unprivileged.yaml"
ROLES = ("ClusterRole", "Role")


def documents(page: Path) -> list[Json]:
    return [each for each in yaml.safe_load_all(page.read_text()) if each]


def rules(page: Path) -> list[tuple[str, Json]]:
    """Each rule, and the namespace it is for; "" is every one."""
    roles = [each for each in documents(page) if each["kind"] in ROLES]
    return [(role["metadata"].get("namespace", ""), rule) for role in roles for rule in role["rules"]]


def granted(found: Iterable[tuple[str, Json]]) -> Iterator[Right]:
    """The rights of some rules, one by one."""
    for namespace, rule in found:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(verb, resource, group, namespace, name)


def node(name: str, number: int) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": f"192.0.2.{number}"}],
            "nodeInfo": {
                "kubeletVersion": VERSION, "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2",
                "operatingSystem": "linux", "machineID": str(number),
            },
        },
    }  # fmt: skip


class Guarded:
    """What preflight needs of a cluster, to an account with these rights."""

    context, server = "home", "https://192.0.2.1:6443"
    dialect = dialect_of(VERSION)

    def __init__(self, rights: Iterable[Right]) -> None:
        self.rights = frozenset(rights)
        self.refused: list[str] = []

    def version(self) -> str:
        return VERSION

    def may(
        self, verb: str, resource: str, *, group: str = "", namespace: str | None = None, name: str | None = None
    ) -> bool:
        wanted = {(where, one) for where in ("", namespace or "") for one in ("", name or "")}
        return any(Right(verb, resource, group, where, one) in self.rights for where, one in wanted)

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        parts = path.strip("/").split("/")
        group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else ""
        resource, name, *_ = [*(parts[2:] if namespace else parts), ""]
        verb = {"POST": "create", "GET": "get" if name else "list"}[method]
        if not self.may(verb, resource, group=group, namespace=namespace, name=name):
            self.refused.append(f"{verb} {resource}")
            raise ApiError(403, "Forbidden", f"{resource} is forbidden", f"{method} {path}")
        if method == "POST":
            return {"metadata": (body or {}).get("metadata", {}), "spec": {"ipFamilies": ["IPv4"]}}
        if name:
            return {"data": {"config.conf": "mode: iptables"}}
        if resource == "nodes":
            return {"items": [node(f"n{number}", number) for number in (1, 2, 3)]}
        if resource == "daemonsets":
            return {"items": [{"metadata": {"name": "kube-proxy"}}]}
        return {"items": []}

    def list(self, path: str, **query: str) -> list[Json]:
        return list(self.request("GET", path, query=query)["items"])
