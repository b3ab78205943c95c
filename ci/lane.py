"""`ci/conformance`: create a lane's cluster, run the suite on it, and remove everything."""

import argparse
import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import FrameType
from typing import NoReturn

from ci import (
    account,
    cilium_balancer,
    cluster,
    emulation,
    kube_proxy,
    lane_file,
    loadbalancer,
    metallb,
    needs,
    network,
    published,
    router,
    wheel,
)
from ci.access import ClusterAccess
from ci.containers import runs
from ci.hermetic import coredns, golang
from ci.lane_file import CILIUM_BGP, CILIUM_L2, METALLB, METALLB_BGP, REFERENCE, Lane
from ci.places import CONTEXT, Places, cores, places
from ci.step import SETUP_FAILED, Journal, Parser, SetupError, guarded, interrupt_children, resume
from ci.ways import Hermetic, Official, Way, choose
from esipp.app.cli import check_run, checks_named
from esipp.base.errors import EsippError

INTERRUPTED = 2
TEARDOWN_SECONDS = 120
"""Timeout for the clean-up of an interrupted suite."""


class Interrupted(Exception):  # noqa: N818 - not an error
    """SIGINT or SIGTERM came."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    own, more = split(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(own)
    where = places()
    with contextlib.ExitStack() as stack:
        try:
            lane = lane_file.load(options.lane, options.kubernetes, cilium=options.cilium)
            _check(lane, more)
            stack.enter_context(_only_one(where))
            shutil.rmtree(where.logs, ignore_errors=True)
            journal = Journal(where.logs)
            _watch_signals()
            return _down(where, journal) if options.down else _lane(options, lane, more, where, journal)
        except SetupError as error:
            error.show()
            return SETUP_FAILED
        except Interrupted:
            print("\nInterrupted.", file=sys.stderr)
            return INTERRUPTED


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments of this program, and those after ``--`` for ``esipp run``."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _check(lane: Lane, more: list[str]) -> None:
    """Validate options of ``esipp run`` before creating a cluster."""
    try:
        check_run(suite_command(lane, "echo:1", more)[2:])
    except EsippError as error:
        raise SetupError(error.sentence, error.hint) from None


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ci/conformance",
        description="Create a kind cluster, run a lane's checks on it, and remove it.",
        epilog="Options after -- go to 'esipp run'. Exit code: its own (0 conformant, 1 not, 3 harness error), "
        "2 interrupted, 4 set-up failed.",
    )
    parser.add_argument("--lane", default="kind-iptables", metavar="NAME", help="a file of ci/lanes/ (%(default)s)")
    parser.add_argument("--kubernetes", metavar="vX.Y.Z", help="another Kubernetes version than the lane's")
    parser.add_argument("--cilium", metavar="vX.Y.Z", help="another version of Cilium than the lane's")
    parser.add_argument(
        "--kube-proxy",
        metavar="vX.Y.Z",
        help="also load this version of kube-proxy: continuity.proxy-upgraded changes to it",
    )
    parser.add_argument(
        "--cilium-agent",
        metavar="vX.Y.Z",
        help="also load this version of Cilium's agent: continuity.network-agent-upgraded changes to it",
    )
    parser.add_argument("--keep", action="store_true", help="keep the cluster; reuse a kept one")
    parser.add_argument("--fresh", action="store_true", help="rebuild cached artifacts")
    parser.add_argument("--wheel", action="store_true", help="run the suite from its wheel, in an empty environment")
    parser.add_argument("--up", action="store_true", help="only create the cluster, and keep it")
    parser.add_argument("--down", action="store_true", help="only remove a kept cluster")
    parser.add_argument(
        "--path",
        choices=("auto", "official", "hermetic"),
        default="auto",
        help="published images or a hermetic build (auto: published images if they can be pulled)",
    )
    return parser


def _lane(options: argparse.Namespace, lane: Lane, more: list[str], where: Places, journal: Journal) -> int:
    keep = options.keep or options.up
    for key, chosen in (("only", lane.include), ("without", lane.exclude)):
        for each in chosen:
            journal.line(f"         {key} {each.check}: {each.reason}")
    if options.path != "auto":
        needs.check(lane.name, lane.needs, options.path)  # before anybody asks for an engine
    way = choose(options.path, lane, where, journal)
    needs.check(lane.name, lane.needs, way.name)
    if way.name == "hermetic":  # an unknown version is refused before anything is built
        for version in filter(None, (lane.kube_proxy, options.kube_proxy)):
            golang.kube_proxy(version)
    if options.cilium_agent and not lane.has_cilium:
        raise SetupError(f"The lane '{lane.name}' has no Cilium.", "--cilium-agent is for lanes with Cilium.")
    for version in (lane.cilium_version, options.cilium_agent or lane.cilium_version):
        golang.cilium_module(version)  # likewise, on both paths
    journal.line(
        f"lane {lane.name} ({lane.description}), Kubernetes {lane.kubernetes}, {way.name} path, "
        f"{cores()} cores; logs in {where.logs}"
    )
    done = False  # without a good end the cluster goes, unless it stood before
    standing = None
    there = ClusterAccess(way.name, lane.name, lane.kubernetes, "")
    try:
        earlier = ClusterAccess.load(where)
        standing = earlier if earlier and keep and not options.fresh and _fits(earlier, way, lane, where) else None
        if earlier and not standing:
            journal.line(
                f"         A kept cluster (lane {earlier.lane}, Kubernetes {earlier.kubernetes}) goes for this one."
            )
        if standing:
            there = _renew(standing, way, lane, where, journal)
        else:
            way.clear()
            there = _start(way, lane, options.fresh, where, journal)
        if options.kube_proxy:
            there = replace(there, kube_proxy_image=way.kube_proxy(options.kube_proxy))
            way.load(there, there.kube_proxy_image)
            there.save(where)
        if options.cilium_agent:
            there = replace(there, network_agent_image=way.cilium_agent(options.cilium_agent))
            way.load(there, there.network_agent_image)
            there.save(where)
        code = 0 if options.up else _suite(there, lane, more, journal, from_wheel=options.wheel)
        done = True
    finally:
        resume()
        _ignore_signals(journal)
        if not (standing or (keep and done)):
            way.remove(there)
        if journal.checks:
            journal.line("\n" + journal.table())
    if keep:
        _explain(there, journal)
    return code


def _fits(earlier: ClusterAccess, way: Way, lane: Lane, where: Places) -> bool:
    """Say whether the kept cluster is the one wanted, and healthy."""
    same = (earlier.path, earlier.lane, earlier.node_image) == (way.name, lane.name, way.expected_image(lane))
    same = same and (not lane.has_router or runs(earlier, router.NAME))
    return same and cluster.made_as(lane, where, hermetic=way.name == "hermetic") and cluster.healthy(earlier)


def _renew(earlier: ClusterAccess, way: Way, lane: Lane, where: Places, journal: Journal) -> ClusterAccess:
    """Reuse a kept cluster, with the images of the checkout."""
    journal.line("         A kept cluster of this lane stands and is healthy: it is used.")
    network.give_further_addresses(earlier, journal)  # a node that was started again has lost them
    base = way.echo_base(earlier.kubernetes) if isinstance(way, Hermetic) else None
    image = cluster.ECHO.build(earlier, base, journal)
    if image != earlier.image:
        way.load(earlier, image)
    if REFERENCE in lane.load_balancers:
        base = way.balancer_base() if isinstance(way, Hermetic) else None
        loadbalancer.renew(earlier, loadbalancer.IMAGE.build(earlier, base, journal), journal, lane.balancer_options)
    account.install(earlier, journal)
    there = replace(earlier, image=image)
    there.save(where)
    return there


def _start(way: Way, lane: Lane, fresh: bool, where: Places, journal: Journal) -> ClusterAccess:
    """Bring up a cluster with its load balancers and the echo image."""
    prepared = way.prepare(lane, fresh=fresh)
    there = prepared.there
    config = cluster.write_config(lane, where, hermetic=way.name == "hermetic")
    older_proxy = way.kube_proxy(lane.kube_proxy) if lane.kube_proxy else ""
    with ThreadPoolExecutor() as pool:
        echo = pool.submit(cluster.ECHO.build, there, prepared.echo_base, journal)
        wanted = REFERENCE in lane.load_balancers
        building = pool.submit(loadbalancer.IMAGE.build, there, prepared.balancer_base, journal) if wanted else None
        cluster.create(there, config, journal, where.logs)
        if older_proxy:
            way.load(there, older_proxy)
            kube_proxy.install(there, older_proxy, journal)
        published.install(there, lane.published, where, journal)
        network.give_further_addresses(there, journal)
        if prepared.add_on:  # no pod gets an address before
            prepared.add_on(there, journal)
        naming = pool.submit(coredns.install, there, journal) if isinstance(way, Hermetic) else None
        image = echo.result()
        loading = pool.submit(way.load, there, image)
        balancer = building.result() if building else None
        own = lane.balancer_options
        starting = pool.submit(loadbalancer.install, there, balancer, journal, own) if balancer else None
        account.install(there, journal)
        peer = ""
        if lane.has_router:
            peer = router.start(there, router.IMAGE.build(there, prepared.router_base, journal), journal)
        if {METALLB, METALLB_BGP} & set(lane.load_balancers):
            metallb.install(there, prepared.metallb_manifest, journal, peer, tainted=bool(lane.tolerations))
        of_cilium = bool({CILIUM_L2, CILIUM_BGP} & set(lane.load_balancers))
        if of_cilium:
            cilium_balancer.install(there, lane, journal, peer)
        if peer:
            router.await_sessions(there, journal, cilium_balancer.SPEAKERS if of_cilium else "")
        cluster.await_nodes(there, journal)
        loading.result()
        if starting:
            starting.result()
        if naming:
            naming.result()
    there = replace(there, image=image)
    there.save(where)
    way.tidy(image, *([balancer] if balancer else []))
    return there


def suite_command(lane: Lane, image: str, more: Sequence[str] = ()) -> list[str]:
    """Return the command that runs the lane's suites on its cluster, or those that the options ``more`` name."""

    def given(option: str) -> bool:
        return any(each == option or each.startswith(f"{option}=") for each in more)

    command = ["esipp", "run", "--context", CONTEXT, "--image", image, "--lane", lane.name, "--fail-on", lane.fail_on]
    if not given("--profile"):  # a profile says whether to disrupt; without one, the cluster is there for nothing else
        command.append("--allow-disruptive")
    command += [] if given("--suite") else [part for suite in lane.suites for part in ("--suite", suite)]
    command += ["--provider", lane.emulates, *emulation.left_out(lane.emulates)] if lane.emulates else []
    command += ["--moves", str(lane.moves)] if lane.moves and not given("--moves") else []
    command += [f"--exclude={each.check}={each.reason}" for each in lane.exclude]
    command += [f"--toleration={taint}" for taint in lane.tolerations]
    command += [f"--require={feature}" for feature in lane.requires]
    named = [] if checks_named(more) else [each.check for each in lane.include]  # whoever names checks wants those
    return [*command, *more, *named]


def _suite(there: ClusterAccess, lane: Lane, more: Sequence[str], journal: Journal, *, from_wheel: bool) -> int:
    """Run the suite in the cluster's environment, with this program's output; return its exit code."""
    command = suite_command(lane, there.image, more)
    environment, folder, program = account.environment(there, command), None, command[0]
    with contextlib.ExitStack() as stack:
        if from_wheel:
            with journal.step("install the wheel into an empty environment"):
                programs, folder = stack.enter_context(wheel.installed())
            environment, program = wheel.outside_of_the_checkout(environment), str(programs / program)
        step = stack.enter_context(journal.step("run the suite", speaks=True))
        step.say(shlex.join(command))
        argv = guarded([*there.prefix, program, *command[1:]], "TERM")
        process = subprocess.Popen(argv, cwd=folder, env=environment, start_new_session=True)
        try:
            return process.wait()
        except Interrupted:
            os.killpg(process.pid, signal.SIGTERM)  # it removes what it made; then the cluster goes as well
            try:
                process.wait(timeout=TEARDOWN_SECONDS)
            except subprocess.TimeoutExpired:  # it would wait for a cluster that is gone
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _down(where: Places, journal: Journal) -> int:
    earlier = ClusterAccess.load(where)
    if earlier and earlier.path == "official":
        Official(where, journal).remove(earlier)
    elif earlier or where.run.exists():
        Hermetic(where, journal).remove(earlier or ClusterAccess("hermetic", "", "", ""))
    else:
        journal.line("There is no kept cluster.")
    return 0


def _explain(there: ClusterAccess, journal: Journal) -> None:
    journal.line(f"""
The cluster stands: {there.path} path, Kubernetes {there.kubernetes}, echo image {there.image}.
  use it     ci/enter kubectl --context {CONTEXT} get nodes
             ci/enter esipp run --context {CONTEXT}
  remove it  ci/conformance --down""")


@contextlib.contextmanager
def _only_one(where: Places) -> Iterator[None]:
    """Hold the lock of this machine's cluster until the process ends."""
    where.run.mkdir(parents=True, exist_ok=True)
    with (where.run / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SetupError(
                f"Another ci/conformance runs on this machine (process {lock.read().strip() or 'unknown'}).",
                "wait for it, or end it.",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _watch_signals() -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        interrupt_children()
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)


def _ignore_signals(journal: Journal) -> None:
    def patience(_number: int, _frame: FrameType | None) -> None:
        journal.line("         (still removing what was started)")

    signal.signal(signal.SIGINT, patience)
    signal.signal(signal.SIGTERM, patience)


if __name__ == "__main__":
    sys.exit(main())
