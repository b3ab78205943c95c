"""Disruptions on nodes themselves, without Kubernetes, and their rollback.

First the node gets a mark (a file with the run's owner) and a dead man's switch: a systemd timer that undoes the
disruption even if all processes of esipp are dead.
"""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.checks.disruption import Disruption
from esipp.disruption.agents import AGENTS, STOPPED, Agents
from esipp.disruption.marks import RefusedError
from esipp.probing.node_containers import run

MARKS = "${ESIPP_MARKS:-/run/esipp}"
"""The directory of the marks on a node; only the unit tests use another one."""
ALREADY, NOTHING = 71, 72
"""Exit codes of the scripts: the service is already stopped; there is nothing of that owner to undo."""

API_SERVER_PROCESS, PROXY_PROCESS = "kube-apiserver", "kube-proxy"

_PACKETS = re.compile(r"counter packets (\d+)")

SLOW_UNIT = "esipp-api-slow"
STOPPED_SECONDS, WORKING_SECONDS = 2.0, 0.5
"""How long a slow API server is stopped, and then works, in turn."""

_KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/kubelet.conf --request-timeout=5s"
"""kubectl with the kubelet's own account, which may create and annotate its own Node object alone."""
_NODE = f'"{MARKS}/node.yaml"'
"""The Node object as it was, without ``_OF_THE_SERVER``."""
_OF_THE_SERVER = r"\(creationTimestamp\|resourceVersion\|uid\)"
STAYS = "esipp.dev/stays"
_SAVE_NODE = (
    f"{_KUBECTL} get node $(hostname) -o yaml | sed '/^  {_OF_THE_SERVER}:/d' >{_NODE}; grep -q '^kind: Node$' {_NODE}"
)
# changed, so that a deletion of an earlier version that is still under way is refused
_REGISTER_NODE = (
    f"{{ {{ {_KUBECTL} annotate --overwrite node $(hostname) {STAYS}=yes"
    f" && {_KUBECTL} annotate node $(hostname) {STAYS}-; }} || {_KUBECTL} create -f {_NODE}; }}"
    f" >/dev/null && rm -f {_NODE}"
)

_ADDRESSES = f'"{MARKS}/addresses"'
"""What a node gets: ``192.0.2.7/32``, and from when it is stopped also for which device, a line each."""
_TAKEN = (
    'ip -o address show | grep -F " @/"; (echo >/dev/udp/@/9) 2>/dev/null; sleep 1.2;'
    " ip neighbour show to @ | grep lladdr"
)
"""Whether the node, or another host of its network, has an address already."""
_MISSING = 'ip -o address show | grep -vE " (tentative|dadfailed) " | grep -qF " @ " || echo missing'

_READDRESSED, _FORTH, _BACK = (f'"{MARKS}/{name}"' for name in ("readdressed", "readdress", "readdress-back"))
"""The addresses that a node loses and gets, a line each (``192.0.2.7 192.0.2.39``); and the scripts for both ways."""
FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
"""Where kubeadm leaves the options of a kubelet."""
_TRIES = 10

_JOINED = f'"{MARKS}/joined"'
"""On the control plane: the name of the node that joins, and the id of its bootstrap token, a line each."""
_ADMIN = "/etc/kubernetes/admin.conf"
_AS_ADMIN = f"kubectl --kubeconfig={_ADMIN} --request-timeout=20s"
TOKEN_MINUTES = 10
"""How long a bootstrap token is valid."""


def _of_joined(line: int, command: str) -> str:
    """A command with that line of the file in place of ``{}``. The timer's own shell must have nothing to expand."""
    return f"sed -n {line}p {_JOINED} | xargs -I{{}} {command}"


_TAKE_AWAY = " && ".join(
    [
        _of_joined(1, f"{_AS_ADMIN} delete node {{}} --ignore-not-found"),
        # the pods of its DaemonSets, which would stay for a minute
        _of_joined(1, f"{_AS_ADMIN} delete pods -A --field-selector=spec.nodeName={{}} --force --grace-period=0"),
        _of_joined(2, f"{_AS_ADMIN} -n kube-system delete secret bootstrap-token-{{}} --ignore-not-found"),
        _of_joined(
            2,
            f"sh -c '{_AS_ADMIN} get csr --no-headers"
            ' | sed -n "s/ .*system:bootstrap:{} .*//p"'
            f" | xargs -r {_AS_ADMIN} delete csr --ignore-not-found'",
        ),
    ]
)
"""Deletes the Node object of a node that joined, its pods, and what it joined by."""

_WRITERS_OF_ALL = (
    f"pgrep -x {PROXY_PROCESS} | xargs -I@ find /proc/@/root/usr/sbin"
    " '(' -name nft -o -name 'xtables-*-multi' ')' -type f"
)
_WRITERS = _WRITERS_OF_ALL + " -exec chmod {} {{}} +"
"""Changes the mode of the programs by which kube-proxy writes rules, in its own container: their files are a copy."""


@dataclass(frozen=True)
class Service:
    """A service on a node: the commands that stop it, resume it, and check whether it is stopped.

    ``state`` is what is so while it is stopped, as text; ``done`` is the message about the rollback.
    """

    stop: str
    go_on: str
    is_stopped: str
    state: str
    done: str


UPLINKS = "ip -o route show default; ip -6 -o route show default"
_DEVICES = f"{{ {UPLINKS}; }} | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p' | sort -u"


def _dropping(table: str, which: str, state: str, done: str) -> Service:
    """Drop some packets that a node's network brings or takes away, in a table of nftables of its own.

    Chains run after connection tracking (priority -200) if they must know of it, and before any rule of others.
    """
    hooks = (("prerouting", "iifname", -190), ("output", "oifname", -190), ("postrouting", "oifname", 400))
    chains = " ".join(
        f"chain {hook} {{ type filter hook {hook} priority {number}; {word} $device {which}drop; }};"
        for hook, word, number in (hooks if not which else hooks[:2])
    )
    exists = f"nft list table inet {table}"
    return Service(
        stop=f'for device in $({_DEVICES}); do nft "table inet {table} {{ {chains} }}"; done; {exists} >/dev/null',
        go_on=f"{{ ! {exists} >/dev/null 2>&1 || nft delete table inet {table}; }}",
        is_stopped=exists,
        state=state,
        done=done,
    )


def _stopped(agents: Agents) -> Service:
    """Stop an agent's processes, and in the end kill them: their kubelet starts them anew."""
    names = tuple(dict.fromkeys(agents.processes.values()))
    either = shlex.quote("|".join(names))
    return Service(
        stop=f"pkill -STOP -x {either}",
        # no such process: its kubelet starts it just now
        go_on=f"{{ pkill -KILL -x {either} || true; }}",
        is_stopped=_all_stopped(*names),
        state=f"{agents.noun} is stopped",
        done=f"ended {agents.noun} on node {{}}, which was stopped, so that its kubelet starts it anew",
    )


def _all_stopped(*processes: str) -> str:
    """None of these processes has a state other than T."""
    either = shlex.quote("|".join(processes))
    return f"pgrep -x {either} && ! ps -o stat= -C {','.join(processes)} | grep -q '^[^T]'"


_LEFT = _dropping("esipp-left", "", "", "")

_BALANCER, _BALANCER_TABLE = f'"{MARKS}/balancer"', "esipp-balancer-cut-off"
"""The load balancer's addresses, ``ip 192.0.2.7``, a line each; and the table of nftables that drops its packets."""
API_PORT = 6443


def _cut_off() -> Service:
    """Drop what comes from some addresses to the API server, and what goes back, and count it."""
    table = _BALANCER_TABLE
    chains = " ".join(
        f"chain {hook} {{ type filter hook {hook} priority -190;"
        f" $(sed 's/$/ tcp {port} {API_PORT} counter drop;/; s/ / {word} /' {_BALANCER}) }};"
        for hook, word, port in (("prerouting", "saddr", "dport"), ("output", "daddr", "sport"))
    )
    exists = f"nft list table inet {table}"
    return Service(
        stop=f'nft "table inet {table} {{ {chains} }}"; {exists} >/dev/null',
        go_on=f"{{ ! {exists} >/dev/null 2>&1 || nft delete table inet {table}; }} && rm -f {_BALANCER}",
        is_stopped=exists,
        state="the reference load balancer is cut off from the API server",
        done="lets the reference load balancer reach the API server on node {} again",
    )


SERVICES = {
    Disruption.API_SERVER: Service(
        stop=f"pkill -STOP -x {API_SERVER_PROCESS}",
        # no such process: the kubelet has replaced it with a running one
        go_on=f"{{ pkill -CONT -x {API_SERVER_PROCESS} || true; }}",
        is_stopped=_all_stopped(API_SERVER_PROCESS),
        state="the API server is stopped",
        done="resumed the API server on node {}",
    ),
    Disruption.KUBELET: Service(
        stop="systemctl stop kubelet",
        go_on="systemctl start kubelet",
        is_stopped="systemctl is-active kubelet | grep -qx inactive",
        state="the kubelet is stopped",
        done="started the kubelet on node {}",
    ),
    Disruption.CUT_OFF: _dropping(
        "esipp-cut-off", "", "the node's network carries nothing", "connected node {} to its network again"
    ),
    Disruption.CONNTRACK_FULL: _dropping(
        "esipp-conntrack-full",
        "ct state new ",
        "the node takes no new flows",
        "lets node {} take new connections again",
    ),
    Disruption.API_SLOW: Service(
        stop=f"pgrep -x {API_SERVER_PROCESS} && systemd-run --quiet --collect --unit={SLOW_UNIT} sh -c 'while :;"
        f" do pkill -STOP -x {API_SERVER_PROCESS}; sleep {STOPPED_SECONDS};"
        f" pkill -CONT -x {API_SERVER_PROCESS}; sleep {WORKING_SECONDS}; done'",
        go_on=f"{{ ! systemctl is-active --quiet {SLOW_UNIT} || systemctl stop {SLOW_UNIT}; }}"
        f" && {{ pkill -CONT -x {API_SERVER_PROCESS} || true; }}",
        is_stopped=f"systemctl is-active --quiet {SLOW_UNIT}",
        state="the API server is slow",
        done="lets the API server on node {} work without pauses again",
    ),
    Disruption.NODE_DELETED: Service(
        stop=_SAVE_NODE,  # the run itself deletes the object: a kubelet may not
        go_on=_REGISTER_NODE,
        is_stopped=f"{_KUBECTL} get node $(hostname) 2>&1 | grep -q NotFound",
        state="the Node object is deleted",
        done="registered node {} again",
    ),
    Disruption.NODE_LEFT: Service(
        stop=f"{_SAVE_NODE}; systemctl stop kubelet; {_LEFT.stop}",
        # registered before its kubelet starts, which would register it with other podCIDRs
        go_on=f"{_LEFT.go_on} && {_REGISTER_NODE} && systemctl start kubelet",
        is_stopped=f"{_LEFT.is_stopped} && systemctl is-active kubelet | grep -qx inactive",
        state="the node is off the network, without a kubelet and without a Node object",
        done="let node {} join again",
    ),
    Disruption.NODE_JOINED: Service(  # on the control plane; whoever has docker starts and removes the container
        stop=f"[ -s {_JOINED} ]",
        go_on=f"{{ [ ! -s {_JOINED} ] || {{ {_TAKE_AWAY}; }} >/dev/null; }} && rm -f {_JOINED}",
        is_stopped=f"[ -s {_JOINED} ]",
        state="another node may join",
        done="deleted the Node object of the node that joined, by node {}",
    ),
    Disruption.ADDRESS_ADDED: Service(
        stop=f"if cut -d/ -f1 {_ADDRESSES} | xargs -I@ bash -c '{_TAKEN}' | grep .;"
        f" then rm {_ADDRESSES}; echo 'its other address is taken' >&2; exit 1; fi;"
        f' sed -i "s|$| dev $({_DEVICES} | head -n 1)|" {_ADDRESSES}; xargs -L 1 -a {_ADDRESSES} ip address add',
        go_on=f"{{ [ ! -s {_ADDRESSES} ] || xargs -L 1 -a {_ADDRESSES} ip address delete || true; }}"
        f" && rm -f {_ADDRESSES}",
        is_stopped=f"[ -s {_ADDRESSES} ] && ! cut -d' ' -f1 {_ADDRESSES} | xargs -I@ sh -c '{_MISSING}' | grep -q .",
        state="the node has another address of each family",
        done="took the other addresses from node {}",
    ),
    Disruption.NODE_READDRESSED: Service(
        stop=f"if cut -d' ' -f2 {_READDRESSED} | xargs -I@ bash -c '{_TAKEN}' | grep .;"
        f" then rm {_READDRESSED} {_FORTH} {_BACK}; echo 'its other address is taken' >&2; exit 1; fi; sh {_FORTH}",
        go_on=f"{{ [ ! -s {_BACK} ] || sh {_BACK} >/dev/null; }} && rm -f {_READDRESSED} {_FORTH} {_BACK}",
        is_stopped=f"[ -s {_READDRESSED} ] && ! while read old new; do"
        ' ip -o address show | grep -qF " $new/" || echo lacks $new;'
        f' ! ip -o address show | grep -F " $old/"; done <{_READDRESSED} | grep -q .',
        state="the node has other addresses",
        done="gave node {} its own addresses back",
    ),
    Disruption.BALANCER_CUT_OFF: _cut_off(),
    **{what: _stopped(AGENTS[what]) for what in STOPPED},
    Disruption.PROXY_SICK: Service(
        stop=f"pgrep -x {PROXY_PROCESS} | grep -q . && {_WRITERS.format('a-x')}",
        # a container that was replaced has its programs as they were
        go_on=f"{{ {_WRITERS.format('a+x')} || true; }}",
        is_stopped=f"pgrep -x {PROXY_PROCESS} && ! {_WRITERS_OF_ALL} -perm -u=x 2>/dev/null | grep -q .",
        state="kube-proxy cannot write its rules",
        done="lets kube-proxy on node {} write its rules again",
    ),
}


def stop(way: Sequence[str], what: Disruption, owner: str, longest: float, first: str = "") -> None:
    """Set the mark and the switch, then stop the service; the switch undoes it after ``longest`` seconds.

    ``first`` is run before the service is stopped, for what that needs.

    Raises:
        RefusedError: it is already stopped, possibly by a run. Nothing was done.
        HarnessError: it cannot be stopped; the mark may exist.
    """
    done = run(way, stop_script(what, owner, longest, first))
    if done.returncode == ALREADY:
        raise RefusedError(
            f"The disruption {what} is already in effect on the node ({done.stderr.strip()}).", "run 'esipp clean'."
        )
    if done.returncode != 0:
        raise HarnessError(f"Cannot begin {what}: {done.stderr.strip()[:300]}", "check that this is a node of kind.")


def go_on(way: Sequence[str], what: Disruption, owner: str) -> bool:
    """Resume the service if there is a mark of this owner, and return whether there was.

    Raises:
        HarnessError: it cannot be resumed.
    """
    done = run(way, undo_script(what, owner))
    if done.returncode not in (0, NOTHING):
        raise HarnessError(f"Cannot undo {what}: {done.stderr.strip()[:300]}", "see the node's journal.")
    return done.returncode == 0


def is_stopped(way: Sequence[str], what: Disruption) -> bool:
    """Whether the service on a node is stopped."""
    return run(way, SERVICES[what].is_stopped).returncode == 0


def marks(way: Sequence[str]) -> dict[Disruption, str]:
    """The marks on a node, with their owners.

    Raises:
        HarnessError: the command on the node fails.
    """
    listing = (
        f'cd "{MARKS}" 2>/dev/null || exit 0; for name in *; do [ -f "$name" ] && echo "$name $(cat "$name")"; done'
    )
    done = run(way, listing + "; true")
    if done.returncode != 0:
        raise HarnessError(f"Cannot read the marks on a node: {done.stderr.strip()[:300]}", "see 'docker ps'.")
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return {Disruption(name): owner for name, _, owner in lines if name in {each.value for each in SERVICES}}


def stop_script(what: Disruption, owner: str, longest: float, first: str = "") -> str:
    """The script that sets the mark and the switch, and then stops the service."""
    service, unit = SERVICES[what], _unit(what)
    switch = f"{service.go_on} && rm -f {_mark(what)}"
    timer = f"systemd-run --quiet --collect --unit={unit} --on-active={longest:.0f} --timer-property=AccuracySec=1s"
    return "\n".join(
        [
            "set -e",
            f'mkdir -p "{MARKS}"',
            f"if {service.is_stopped} >/dev/null 2>&1; then echo 'no run has marked it' >&2; exit {ALREADY}; fi",
            f"if ! (set -C; echo {shlex.quote(owner)} >{_mark(what)}) 2>/dev/null; then",
            f"  cat {_mark(what)} >&2; exit {ALREADY}",
            "fi",
            f'{timer} sh -c "{_quoted(switch)}" || {{ rm -f {_mark(what)}; exit 1; }}',
            *([first] if first else []),
            service.stop,
        ]
    )


def undo_script(what: Disruption, owner: str) -> str:
    """The script that resumes the service; it removes the mark last, so that an interrupted rollback can be retried."""
    return "\n".join(
        [
            f'[ "$(cat {_mark(what)} 2>/dev/null)" = {shlex.quote(owner)} ] || exit {NOTHING}',
            # the shell's own -e lets all but the last part of such a list fail
            f"{{ {SERVICES[what].go_on}; }} || exit 1",
            f"systemctl stop {_unit(what)}.timer 2>/dev/null || true",
            f"rm -f {_mark(what)}",
        ]
    )


def note_addresses(addresses: Sequence[str]) -> str:
    """The script that tells a node which addresses ``ADDRESS_ADDED`` gives it."""
    lines = [f"{address}/{128 if ':' in address else 32}" for address in addresses]
    return f"printf '%s\\n' {' '.join(lines)} >{_ADDRESSES}"


def note_readdressing(pairs: Sequence[tuple[str, str]], before: Sequence[Json], after: Sequence[Json]) -> str:
    """The script that tells a node by which addresses ``NODE_READDRESSED`` replaces its own.

    Args:
        pairs: each of its own addresses, and the other one.
        before, after: ``status.addresses`` of its Node object.
    """
    reverse = [(new, old) for old, new in pairs]
    files = {
        _READDRESSED: "".join(f"{old} {new}\n" for old, new in pairs),
        _FORTH: _readdress(pairs, after),
        _BACK: _readdress(reverse, before),
    }
    return "\n".join(f"printf %s {shlex.quote(text)} >{name}" for name, text in files.items())


def _readdress(pairs: Sequence[tuple[str, str]], addresses: Sequence[Json]) -> str:
    """The script by which a node replaces its own addresses; it may be run again.

    The new one is the first of its interface, from which the node speaks: further ones are taken away for a moment.
    Without a cloud provider, the kubelet names its addresses itself; the node does so in any case.
    """
    moved = "\n".join(f"move {old} {new}" for old, new in pairs)
    ips = ",".join(new for _, new in pairs)
    status = json.dumps({"status": {"addresses": list(addresses)}})
    # a kubelet's account may write its node's status, and not read it as a subresource, as 'kubectl patch' does
    path = "/api/v1/nodes/$(hostname)"
    patched = f"kubectl patch --local -f - --type=merge --patch {shlex.quote(status)} -o json"
    named = f"{_KUBECTL} get --raw {path} | {patched} | {_KUBECTL} replace --raw {path}/status -f -"
    return f"""set -e
device=$({_DEVICES} | head -n 1)
promotes=/proc/sys/net/ipv4/conf/$device/promote_secondaries
before=$(cat $promotes)
trap 'echo $before >$promotes' EXIT
echo 1 >$promotes
shown() {{ ip -o address show dev $device scope global; }}
move() {{
  length=$(shown | sed -n "s|.* $1/\\([0-9]*\\) .*|\\1|p")
  [ -n "$length" ] || return 0
  case $1 in
    *:*) others= ;;
    *) others=$(shown | sed -n 's|.* inet \\([^ ]*\\) .*|\\1|p' | grep -vxF -e $1/$length -e $2/$length) || true ;;
  esac
  shown | grep -qF " $2/" || case $2 in
    *:*) ip address add $2/$length dev $device nodad ;;
    *) ip address add $2/$length brd + dev $device ;;
  esac
  for each in $others; do ip address delete $each dev $device; done
  ip address delete $1/$length dev $device
  for each in $others; do ip address add $each dev $device; done
}}
{moved}
[ ! -e {FLAGS} ] || sed -i 's/--node-ip=[^ "]*/--node-ip={ips}/' {FLAGS}
systemctl restart kubelet
for try in $(seq {_TRIES}); do {named} && exit 0; sleep 1; done
exit 1
"""


def note_balancer(addresses: Sequence[str]) -> str:
    """The script that tells a node which load balancer ``BALANCER_CUT_OFF`` is about."""
    lines = [f"'{'ip6' if ':' in address else 'ip'} {address}'" for address in addresses]
    return f"printf '%s\\n' {' '.join(lines)} >{_BALANCER}"


def dropped(way: Sequence[str]) -> int:
    """How many packets a node has dropped between the load balancer and the API server."""
    listed = run(way, f"nft list table inet {_BALANCER_TABLE}").stdout
    return sum(map(int, _PACKETS.findall(listed)))


def let_join(name: str, token: str) -> str:
    """The script that lets a node join by a bootstrap token, and notes that on a node of the control plane."""
    lifetime = f"--ttl={TOKEN_MINUTES}m"
    return "\n".join(
        [
            f"printf '%s\\n' {name} {token.partition('.')[0]} >{_JOINED}",
            f"kubeadm --kubeconfig={_ADMIN} token create {token} {lifetime} >/dev/null",
        ]
    )


def _unit(what: Disruption) -> str:
    return f"esipp-undo-{what.value}"


def _mark(what: Disruption) -> str:
    return f'"{MARKS}/{what.value}"'


def _quoted(script: str) -> str:
    """A script for use inside double quotes; the outer shell expands the directory's variable."""
    return script.replace('"', '\\"')
