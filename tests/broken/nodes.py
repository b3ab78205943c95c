"""Commands on the nodes of a kind cluster, and runs of the suite against it."""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ci import loadbalancer
from ci.access import ClusterAccess
from ci.places import places
from esipp.base.dns import RESOLVER
from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, OWNER, RUN_LABEL, UNSERVED_CLASS
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.catalog import HOUSE
from esipp.checks.model import Family, Role
from esipp.cluster.client import Cluster
from esipp.judging.topology import cast_roles, family_of, read_node
from esipp.ledger.file import read_ledger
from esipp.ledger.run import DEFAULT_MOVES
from tests.broken.shells import shell

PROGRAMS = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
TABLES = ("nat", "mangle", "filter")
OURS = "esipp-broken"
"""What all rules and processes of these tests are called by; what follows distinguishes each context's own."""

SWITCH = f"{OURS}-switch"
"""What the process on a node is called that lets kube-proxy go on if nobody else does."""

WORSE = {"fail", "flaky", "error", "inconclusive"}
GO_ON = f"pkill -f {SWITCH}; pkill -CONT -x kube-proxy || true"
"""Let kube-proxy go on. A switch of an earlier session would do so in the midst of a later one."""

REPORTED = ("observed", "reason", "change", "likely")
SEED = 12
"""The seed of every run. Healthy and broken, the nodes have the same roles, and the same is done."""

LONGEST = 1200.0
"""Timeout of one run in seconds: many times the duration on an idle machine."""


@dataclass(frozen=True)
class Rule:
    """A rule at the top of a chain of a table, or the ``last`` one there; on every node, or on those named."""

    family: Family
    chain: str
    words: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    table: str = "nat"
    last: bool = False

    def concerns(self, node: str) -> bool:
        """Whether it is for this node."""
        return not self.nodes or node in self.nodes

    def line(self, how: str, mark: str) -> str:
        """The line for iptables-restore that puts it in (``--insert``) or takes it away (``--delete``)."""
        how = "--append" if self.last and how == "--insert" else how
        return " ".join((how, self.chain, "--match", "comment", "--comment", mark, *self.words))


def script(rules: Sequence[Rule], how: str, mark: str) -> str:
    """The shell commands that put rules in, or take them away: one for each family and table, so that it is quick."""
    commands = []
    for family, table in sorted({(rule.family, rule.table) for rule in rules}):
        lines = [rule.line(how, mark) for rule in rules if (rule.family, rule.table) == (family, table)]
        commands.append(_restore(PROGRAMS[family], table, shlex.quote("\n".join(lines))))
    return " && ".join(commands)


def _restore(program: str, table: str, lines: str) -> str:
    return f"printf '*{table}\\n%s\\nCOMMIT\\n' {lines} | {program}-restore --noflush --wait"


def new_mark() -> str:
    """How the rules of one context are recognised: others may be at work on the same nodes."""
    return f"{OURS}-{secrets.token_hex(4)}"


def take_away(mark: str) -> str:
    """The shell command that takes away all rules, and tables of nftables, whose mark begins so."""
    away = [f"nft list tables | grep -- {mark} | while read -r table; do nft delete $table; done"]
    for program in PROGRAMS.values():
        for table in TABLES:
            restore = _restore(program, table, '"$found"')
            away.append(f"found=$({program} --wait -t {table} -S | grep -- {mark} | sed s/^-A/-D/)")
            away.append(f'[ -z "$found" ] || {restore}')
    return "; ".join(away)


@dataclass(frozen=True)
class Result:
    """What a run of the suite said: exit code, the status of every check, and when it began to observe them.

    ``reported`` is all that a reader learns about a check (what was seen, why, where the source changed or to look),
    ``likely`` only the last; ``seconds`` is how long the run took.
    """

    exit_code: int
    statuses: dict[str, str]
    settled: float
    text: str
    reported: dict[str, str] = field(default_factory=dict)
    likely: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def names(self, check: str, cause: str) -> bool:
        """Whether what is reported about a check matches this regular expression somewhere."""
        return re.search(cause, self.reported.get(check, ""), re.IGNORECASE) is not None

    def worse(self) -> dict[str, str]:
        """The checks that went wrong in any way, with their status."""
        return {check: status for check, status in self.statuses.items() if status in WORSE}


@dataclass(frozen=True)
class Nodes:
    """The node containers, the roles they play, the CIDRs of pods and services, and the cluster they make."""

    cluster: Cluster
    kubeconfig: str | None
    containers: tuple[str, ...]
    roles: dict[Role, str]
    pod_cidrs: dict[Family, str]
    service_cidrs: dict[Family, str]

    @classmethod
    def of(cls, context: str, kubeconfig: str | None) -> "Nodes":
        """Read them from the cluster; only containers of kind are ever touched."""
        cluster = Cluster(context, kubeconfig)
        found = [read_node(item) for item in cluster.list("/api/v1/nodes")]
        assert all(node.provider_id.startswith("kind://docker/") for node in found), "only kind nodes are broken"
        maps = "/api/v1/namespaces/kube-system/configmaps"
        config = cluster.request("GET", f"{maps}/kubeadm-config")["data"]["ClusterConfiguration"]
        cidrs = {}
        for name in ("podSubnet", "serviceSubnet"):
            listed = re.search(rf"^\s*{name}: (\S+)$", config, re.MULTILINE)
            assert listed is not None, f"kubeadm-config has no {name}"
            cidrs[name] = {family_of(cidr.partition("/")[0]): cidr for cidr in listed[1].split(",")}
        containers = tuple(sorted(node.name for node in found))
        return cls(cluster, kubeconfig, containers, cast_roles(found, SEED), cidrs["podSubnet"], cidrs["serviceSubnet"])

    @property
    def lock(self) -> Path:
        """By whose locks those that break this cluster keep out of each other's way, in other sessions too."""
        return places().run / "turn"

    @property
    def bare(self) -> str:
        """The node that has no backend."""
        return self.roles[Role.BARE_NODE]

    @contextmanager
    def rules(self, *rules: Rule) -> "Iterator[Placed]":
        """Rules on the nodes, always removed again; one command per node, to be fast."""
        mark = new_mark()
        try:
            self.on_nodes(lambda node: script([each for each in rules if each.concerns(node)], "--insert", mark))
            yield Placed(time.time())
        finally:
            self.take_away(mark)

    @contextmanager
    def running(self, image: str, user: int, command: list[str]) -> Iterator[None]:
        """A process in every node's network, in a separate container; always removed again."""
        mark = new_mark()

        def start(node: str) -> None:
            name, (program, *arguments) = f"{mark}-{node}", command
            options = ["--detach", "--name", name, "--network", f"container:{node}", "--user", str(user)]
            _docker("run", *options, "--entrypoint", program, image, *arguments)
            budget = Budget("the process beside a node being ready", 20.0, need=1)
            waited = converge(lambda: Reading("ready" in _docker("logs", name), name), budget)
            assert waited.held, f"{waited}; {_docker('logs', name)}"

        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(start, self.containers))
            yield
        finally:
            remove_processes(mark)

    def heal(self) -> None:
        """Remove leftovers of an interrupted test: rules, processes, and stopped processes."""
        remove_processes(OURS)
        self.take_away(OURS)
        self.on_nodes(lambda _: GO_ON)

    def take_away(self, mark: str) -> None:
        """Take away every rule whose mark begins so."""
        self.on_nodes(lambda _: take_away(mark))

    def on_nodes(self, script: Callable[[str], str]) -> None:
        """Run a script on each node, at the same time; on those for which there is none nothing is run."""

        def on(node: str) -> None:
            if script(node):
                shell(node).run(script(node))

        with ThreadPoolExecutor() as pool:
            list(pool.map(on, self.containers))

    def live(self, make: Callable[["Live"], Iterable[Rule]]) -> AbstractContextManager["Placed"]:
        """Rules that need the run's Services; added after set-up and before the measurement."""
        return self.once_arranged(lambda live: self.rules(*make(live)))

    @contextmanager
    def once_arranged(self, enter: Callable[["Live"], AbstractContextManager[object]]) -> "Iterator[Placed]":
        """Actions that need the run's Services; always undone again."""
        self.on_nodes(lambda _: "true")  # so that there is a shell on each when it has to be quick
        with ExitStack() as stack:
            ended = threading.Event()
            broken: list[BaseException] = []
            placed = Placed()

            def watch() -> None:
                last: Live | None = None
                while not ended.wait(0.3):
                    try:
                        live = self.arranged()
                        if live is not None and live == last:  # nothing has been added meanwhile
                            with suppress(NotYetError):
                                stack.enter_context(enter(live))
                                placed.at = time.time()
                                return
                        last = live
                    except BaseException as error:  # raised below, in the test's own thread
                        broken.append(error)
                        return

            thread = threading.Thread(target=watch)
            thread.start()
            try:
                yield placed
            finally:
                ended.set()
                thread.join()
            assert not broken, broken

    def arranged(self) -> "Live | None":
        """Our own run, once its pods are all there, as it is now; others may be at work on the cluster."""
        for name, run in self.own_namespaces().items():
            pods = self.cluster.list(f"/api/v1/namespaces/{name}/pods")
            if pods and all(pod.get("status", {}).get("podIPs") for pod in pods):
                services = self.cluster.list(f"/api/v1/namespaces/{name}/services")
                return Live(run, pods, services) if all(map(_has_its_vips, services)) else None
        return None

    def own_namespaces(self) -> dict[str, str]:
        """The namespaces of our own runs, each with its run."""
        selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
        found = self.cluster.list("/api/v1/namespaces", labelSelector=selector)
        ours = [each for each in found if each["status"]["phase"] == "Active" and _is_ours(each)]
        return {each["metadata"]["name"]: each["metadata"]["labels"][RUN_LABEL] for each in ours}

    def qualify(
        self,
        out: Path,
        samples: int = 20,
        *,
        suites: Sequence[str] = ("source_ip",),
        checks: Sequence[str] = (),
        moves: int = DEFAULT_MOVES,
        disruptive: bool = False,
        options: Sequence[str] = (),
    ) -> Result:
        """Run suites on the cluster by the default command: all their checks, or those whose ids contain one of these.

        This only selects checks. The binding checks are the same as for every user.
        """
        began = time.monotonic()
        shutil.rmtree(out, ignore_errors=True)  # of an earlier try
        command = [sys.executable, "-m", "esipp", "run", "--context", self.cluster.context, "--out", str(out)]
        command += ["--samples", str(samples), *(f"--suite={suite}" for suite in suites), *options]
        command += ["--moves", str(moves), "--seed", str(SEED), *checks]  # healthy and broken, the same is done
        command += ["--allow-disruptive"] if disruptive else []
        there = ClusterAccess.load(places())
        server = loadbalancer.resolver(there) if there is not None else ""
        environment = os.environ | ({RESOLVER: server} if server else {})
        done = subprocess.run(
            command, cwd=HOUSE, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        ledger = out / "ledger.jsonl"
        assert ledger.exists(), f"nothing was begun: {done.stdout}{done.stderr}"
        records = list(read_ledger(ledger))
        verdicts = {record["id"]: record for record in records if record["record"] == "verdict"}
        return Result(
            done.returncode,
            {name: each["status"] for name, each in verdicts.items()},
            max((record["at"] for record in records if record["record"] == "settled"), default=0.0),
            done.stdout + done.stderr,
            {name: " ".join(each[part] for part in REPORTED) for name, each in verdicts.items()},
            {name: each["likely"] for name, each in verdicts.items()},
            time.monotonic() - began,
        )


def _is_ours(namespace: Json) -> bool:
    """Whether a process below this one made it."""
    pid = str(namespace["metadata"].get("annotations", {}).get(OWNER, "")).rpartition("/")[2]
    while pid.isdigit() and int(pid) > 1:
        if int(pid) == os.getpid():
            return True
        try:
            pid = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        except OSError:
            return False
    return False


def _has_its_vips(service: Json) -> bool:
    """Whether a load balancer, if the service asks for one that there is, has given it an address of every family.

    A hostname stands for all of them.
    """
    if service["spec"]["type"] != "LoadBalancer" or service["spec"].get("loadBalancerClass") == UNSERVED_CLASS:
        return True
    given = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    return len(given) >= len(service["spec"]["ipFamilies"]) or any(each.get("hostname") for each in given)


def remove_processes(mark: str) -> None:
    """Remove the containers whose names begin so."""
    names = _docker("ps", "--all", "--filter", f"name=^/?{mark}", "--format", "{{.Names}}").split()
    if names:
        command = ["docker", "rm", "--force", *names]
        subprocess.run(command, check=False, capture_output=True, timeout=120)  # another may be doing the same


def _docker(*arguments: str) -> str:
    """What a docker command says."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Placed:
    """When the rules were all in place, in unix seconds; 0 while they are not."""

    at: float = 0.0


class NotYetError(LookupError):
    """The run has not made this Service yet, or never makes it."""


@dataclass(frozen=True)
class Live:
    """A run after set-up: its pods and Services in the API."""

    run: str
    pods: list[Json] = field(repr=False)
    services: list[Json] = field(repr=False)

    @property
    def namespace(self) -> str:
        """The run's own."""
        return f"esipp-{self.run}"

    def service(self, name: str) -> Json:
        """The Service object of this name.

        Raises:
            NotYetError: the API had none of this name.
        """
        for each in self.services:
            if each["metadata"]["name"] == name:
                return each
        raise NotYetError(name)

    @property
    def backends(self) -> set[str]:
        """The addresses in the pod network of all pods that a service has for backends."""
        wanted = [each["spec"]["selector"].items() for each in self.services if each["spec"].get("selector")]
        pods = [pod for pod in self.pods if any(labels <= pod["metadata"]["labels"].items() for labels in wanted)]
        return {ip["ip"] for pod in pods if not pod["spec"].get("hostNetwork") for ip in pod["status"]["podIPs"]}

    def targets(self, service: Json, most: int = 1) -> Iterator[tuple[Json, str, str, int]]:
        """Each port of a service with each address of so many backends: port, address, pod's node, target port."""
        wanted = service["spec"].get("selector") or {}
        backends = [pod for pod in self.pods if wanted and wanted.items() <= pod["metadata"]["labels"].items()]
        for port in service["spec"]["ports"]:
            for pod in backends[:most]:
                named = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
                target = port["targetPort"]
                for address in pod["status"]["podIPs"]:
                    yield port, address["ip"], pod["spec"]["nodeName"], named.get(target, target)

    def addresses_of(self, client: str) -> list[str]:
        """The addresses of a client outside; none if this run does not have it."""
        shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.GlobalIPv6Address}} {{end}}"
        command = ["docker", "inspect", "--format", shown, f"esipp-{self.run}-{client}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 or "No such object" in done.stderr, done.stderr
        return done.stdout.split()
