"""What is done on the nodes themselves, past Kubernetes, and how it is undone there.

Before anything is done, the node gets a mark (a file that names the run's owner) and a dead man's switch: a timer of
systemd that undoes it even if every process of ours is dead by then.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from esipp.base.errors import HarnessError
from esipp.checks.disruption import Disruption
from esipp.disruption.marks import RefusedError
from esipp.probing.node_containers import run

MARKS = "${ESIPP_MARKS:-/run/esipp}"
"""The directory of the marks on a node; only our own tests name another one."""
ALREADY, NOTHING = 71, 72
"""Exit codes of our scripts: a mark is there already; there is nothing of that owner's to undo."""

API_SERVER_PROCESS = "kube-apiserver"


@dataclass(frozen=True)
class Service:
    """What can be stopped on a node: the commands that stop it, make it go on, and tell whether it is stopped.

    ``done`` is what is said when it was undone.
    """

    stop: str
    go_on: str
    is_stopped: str
    done: str


SERVICES = {
    Disruption.API_SERVER: Service(
        stop=f"pkill -STOP -x {API_SERVER_PROCESS}",
        # no such process: the kubelet has replaced it, which runs
        go_on=f"{{ pkill -CONT -x {API_SERVER_PROCESS} || true; }}",
        # every one of them: none has a state other than T
        is_stopped=f"pgrep -x {API_SERVER_PROCESS} && ! ps -o stat= -C {API_SERVER_PROCESS} | grep -q '^[^T]'",
        done="made the API server go on, on node {}",
    ),
    Disruption.KUBELET: Service(
        stop="systemctl stop kubelet",
        go_on="systemctl start kubelet",
        is_stopped="systemctl is-active kubelet | grep -qx inactive",
        done="started the kubelet of node {}",
    ),
}


def stop(way: Sequence[str], what: Disruption, owner: str, longest: float) -> None:
    """Stop it, after the mark and the switch are there; the switch undoes it after ``longest`` seconds.

    Raises:
        RefusedError: it is stopped already, or a run has it in hand. Nothing was done.
        HarnessError: it cannot be stopped; the mark may be there.
    """
    done = run(way, stop_script(what, owner, longest))
    if done.returncode == ALREADY:
        raise RefusedError(f"{what} is stopped there already: {done.stderr.strip()}.", "esipp clean")
    if done.returncode != 0:
        raise HarnessError(f"{what} cannot be stopped: {done.stderr.strip()[:300]}", "is that a node of kind?")


def go_on(way: Sequence[str], what: Disruption, owner: str) -> bool:
    """Undo it if a mark of this owner is there; whether there was anything to undo.

    Raises:
        HarnessError: it cannot be undone.
    """
    done = run(way, undo_script(what, owner))
    if done.returncode not in (0, NOTHING):
        raise HarnessError(f"{what} does not go on: {done.stderr.strip()[:300]}", "see the node's journal")
    return done.returncode == 0


def is_stopped(way: Sequence[str], what: Disruption) -> bool:
    """Whether the node says that it is stopped."""
    return run(way, SERVICES[what].is_stopped).returncode == 0


def marks(way: Sequence[str]) -> dict[Disruption, str]:
    """The marks on a node, with their owners.

    Raises:
        HarnessError: the node cannot be asked.
    """
    listing = (
        f'cd "{MARKS}" 2>/dev/null || exit 0; for name in *; do [ -f "$name" ] && echo "$name $(cat "$name")"; done'
    )
    done = run(way, listing + "; true")
    if done.returncode != 0:
        raise HarnessError(f"A node does not tell its marks: {done.stderr.strip()[:300]}", "docker ps")
    told = [line.partition(" ") for line in done.stdout.splitlines()]
    return {Disruption(name): owner for name, _, owner in told if name in {each.value for each in SERVICES}}


def stop_script(what: Disruption, owner: str, longest: float) -> str:
    """The script that marks, sets the switch and stops, in this order."""
    service, unit = SERVICES[what], _unit(what)
    switch = f"{service.go_on} && rm -f {_mark(what)}"
    timer = f"systemd-run --quiet --collect --unit={unit} --on-active={longest:.0f} --timer-property=AccuracySec=1s"
    return "\n".join(
        [
            "set -e",
            f'mkdir -p "{MARKS}"',
            f"if {service.is_stopped} >/dev/null 2>&1; then echo 'nobody runs it' >&2; exit {ALREADY}; fi",
            f"if ! (set -C; echo {shlex.quote(owner)} >{_mark(what)}) 2>/dev/null; then",
            f"  cat {_mark(what)} >&2; exit {ALREADY}",
            "fi",
            f'{timer} sh -c "{_quoted(switch)}" || {{ rm -f {_mark(what)}; exit 1; }}',
            service.stop,
        ]
    )


def undo_script(what: Disruption, owner: str) -> str:
    """The script that undoes it; the mark goes last, so that what is broken off can be begun again."""
    return "\n".join(
        [
            f'[ "$(cat {_mark(what)} 2>/dev/null)" = {shlex.quote(owner)} ] || exit {NOTHING}',
            "set -e",
            SERVICES[what].go_on,
            f"systemctl stop {_unit(what)}.timer 2>/dev/null || true",
            f"rm -f {_mark(what)}",
        ]
    )


def _unit(what: Disruption) -> str:
    return f"esipp-undo-{what.value}"


def _mark(what: Disruption) -> str:
    return f'"{MARKS}/{what.value}"'


def _quoted(script: str) -> str:
    """A script inside double quotes; the directory's name is filled in outside, where the variable is."""
    return script.replace('"', '\\"')
