"""What stands for the reader's cluster, clients and registry on a kind cluster, and what cannot run there.

A command runs as it is written, but for `REPLACED`. Whatever is in `NOT_HERE` is listed with its reason.
"""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from ci import emulation
from ci.lane_file import CILIUM_BGP, CILIUM_L2, METALLB, METALLB_BGP, Lane
from ci.places import CONTEXT
from ci.step import SetupError
from esipp.base.errors import EsippError, ExitCode
from esipp.checks.catalog import HOUSE
from esipp.loadbalancers.profiles.loading import provider
from tests.guides.commands import Command, of_esipp
from tests.hosts.bridged import EAST, WEST

NAMES = (
    *(f"docs/guides/{name}.md" for name in ("gke", "aks", "eks", "openstack", "bare-metal", "your-own-provider")),
    *("README.md", "docs/running.md", "docs/first-ten-minutes.md", "docs/pipelines.md", "docs/rights.md"),
    *("docs/doctor.md", "docs/outside.md"),
)
PAGES = tuple(HOUSE / name for name in NAMES)
OWN_PROFILE = "granite.toml"
HOSTS = f"ssh:root@{EAST},ssh:{WEST}:22"

OPTIONS = {
    "checks": ["nodeport.local.tcp.ipv4", "loadbalancer.local.tcp.ipv4", "healthcheck.one-pod.ipv4"],
    "samples": 20,
    "moves": 3,
}
"""The file `esipp.yaml` of the reader's folder: whole runs would take hours for all guides. Commands that name checks,
connections or endpoint changes have their own."""


@dataclass(frozen=True)
class Row:
    """What a part of a command becomes, or why a command cannot run here.

    Args:
        pattern: a regular expression that is searched in the command.
        reason: for readers of the result.
        by: the replacement.
    """

    pattern: str
    reason: str
    by: str = ""


REPLACED = (
    Row(r"\bCONTEXT=\S+", "the reader's cluster is the kept one", f"CONTEXT={CONTEXT}"),
    Row(r"(--context )(NAME|my-cluster|kind-NAME)\b", "the reader's cluster is the kept one", rf"\1{CONTEXT}"),
    Row(r"\bCLIENTS=\S+", "the reader's clients are two hosts beside the nodes", f"CLIENTS={HOSTS}"),
    Row(r"ssh:(me@)?(jump\.example\.com|one)\b", "an ssh host is one beside the nodes", f"ssh:root@{EAST}"),
    Row(r"ssh:me@\[2001:db8::7\]:2222", "an ssh host is one beside the nodes", f"ssh:{WEST}:22"),
    Row(
        r'--image-registry ("?\$REGISTRY"?|registry\.example\.com/mirror)',
        "there is no registry, and the nodes have the echo image",
        '--image "$ESIPP_IMAGE"',
    ),
    Row(r"\bREGISTRY=\S+", "there is no registry", "REGISTRY=none"),
    Row(r"--image (…|REFERENCE …)", "the image is the one that the nodes have", '--image "$ESIPP_IMAGE"'),
    Row(r"\s+(\\\n\s*)?--annotation metallb\.io/address-pool=esipp", "the lane's pool serves all Services"),
    Row(r"\./ci/enter (?=kubectl|esipp)", "the commands run where the cluster is already"),
    Row(r"(--kubeconfig \$file) …", "nothing is added there", r"\1"),
    Row(r"=…", "only commands of a cloud read it", "=example"),
)

_CLOUD = r"(?:^|\$\(|\bdo |&& |; |\n\s*)(?:gcloud|az|aws|openstack) "
NOT_HERE = (
    Row(_CLOUD, "a cloud's own tool: nothing here answers it"),
    Row(r"^\. openrc\.sh", "a cloud's credentials"),
    Row(r"aws-load-balancer-controller", "a cloud's controller"),
    Row(r"^(pipx|pip) install|^python3 -m venv", "it installs a release; ./ci/wheel tests an installed wheel"),
    Row(r"^esipp images push", "no registry takes it; tests/unit/test_pushing.py has one of its own"),
    Row(r"^sonobuoy ", "Sonobuoy's images; ./ci/test --in-cluster runs its pod"),
    Row(r"\$JOB|^JOB=|job/esipp|^esipp fetch", "a release's image; ./ci/test --in-cluster runs the Job"),
    Row(r"^\./ci/(conformance|test)", "it replaces, breaks or removes the cluster on which the guides run"),
    Row(r"ipaddresspool/esipp", "the pool of the page; the lane has another one"),
    Row(r"^ip neighbour", "a host of the reader's own segment"),
    Row(r"machine=203\.0\.113\.9", "the address of a NAT of the reader's own"),
    Row(r"--allow-disruptive", "it disturbs the cluster; lanes run it"),
    Row(r"^pytest --pyargs", "a whole run; ./ci/wheel --plugin runs the installed suites"),
    Row(r"esipp-unprivileged\.kubeconfig", "another account; tests/hostile runs with it"),
    Row(r"\bruns/(OLD|NEW)\b", "runs of earlier versions; tests/unit/test_diff.py compares some"),
)


@dataclass(frozen=True)
class End:
    """Commands that end otherwise than with 0.

    Args:
        pattern: a regular expression that is searched in the command.
        code: the exit code.
        reason: why.
    """

    pattern: str
    code: int
    reason: str


ENDS = (
    End(r"\| grep esipp-", 1, "nothing of a run is left, so grep ends with 1"),
    End(
        r"^esipp run .*--provider eks-nlb-instance\b",
        int(ExitCode.NOT_CONFORMANT),
        "a known defect: a pod gets no answer from an NLB's target on its own node",
    ),
    End(r"--rerun-failed", int(ExitCode.NOTHING_SELECTED), "nothing failed before"),
)
BROKEN = End(r"^esipp run", int(ExitCode.NOT_CONFORMANT), "the page has broken the cluster")
"""Runs after `BREAKS`, until the end of the page."""

BREAKS = r"^docker exec esipp-worker iptables .*-I POSTROUTING"
"""The rule that the page of the first ten minutes adds."""
MENDS = (
    "docker exec esipp-worker iptables -t nat -D POSTROUTING -p tcp -d 10.244.0.0/16 ! -s 10.244.0.0/16 -j MASQUERADE"
)


@dataclass(frozen=True)
class Step:
    """A command, and what becomes of it here.

    Args:
        command: as the page has it.
        text: as it runs; empty if it cannot.
        why: why it cannot, or what was replaced.
        code: the exit code that it must have.
        provider: the profile that the reference load balancer has to have for it; empty for the lane's own.
    """

    command: Command
    text: str
    why: tuple[str, ...] = ()
    code: int = 0
    provider: str = ""


def steps(commands: list[Command], lane: Lane) -> list[Step]:
    """What becomes of a page's commands on a cluster of this lane."""
    found, broken = list[Step](), False
    for command in commands:
        step = _step(command, lane)
        broken = broken or bool(re.search(BREAKS, step.text))
        if broken and re.search(BROKEN.pattern, step.text):
            step = replace(step, code=BROKEN.code, why=(*step.why, BROKEN.reason))
        found.append(step)
    return found


def _step(command: Command, lane: Lane) -> Step:
    if out := next((row.reason for row in NOT_HERE if re.search(row.pattern, command.text, re.MULTILINE)), ""):
        return Step(command, "", (out,))
    text, why = command.text, list[str]()
    for row in REPLACED:
        text, count = re.subn(row.pattern, row.by, text)
        why += [row.reason] if count else []
    words = next(iter(of_esipp([replace(command, text=text)])), [])
    named = words[words.index("--provider") + 1] if "--provider" in words else ""
    if named and words[0] in ("run", "doctor"):
        if unfit := why_not(lane, named):
            return Step(command, "", (unfit,))
        if more := emulation.left_out(named) if lane.emulates else []:
            text = f"{text.partition('#')[0].rstrip()} {shlex.join(more)}"
            why.append("the reference load balancer cannot carry it in the product's place")
    else:
        named = ""
    ends = next((row for row in ENDS if re.search(row.pattern, text)), None)
    why += [ends.reason] if ends else []
    return Step(command, text, tuple(dict.fromkeys(why)), ends.code if ends else 0, named)


OF_LANES = {name: name for name in (METALLB, METALLB_BGP, CILIUM_L2, CILIUM_BGP)}
"""The profile of each load balancer that a lane may have beside the reference one."""


def why_not(lane: Lane, profile: str) -> str:
    """Why a cluster of this lane cannot stand for one with a load balancer of this profile; empty if it can."""
    if not lane.emulates:
        own = [OF_LANES[each] for each in lane.load_balancers if each in OF_LANES]
        return "" if profile in own else f"the lane {lane.name} has {' '.join(own) or 'none'}, not {profile}"
    try:
        emulation.options(profile)
        wanted, has = (provider(each).status.form.value for each in (profile, lane.emulates))
    except (SetupError, EsippError) as refused:
        return f"{profile} cannot be emulated: {refused}"
    return "" if wanted == has else f"{profile} announces a {wanted}, the lane {lane.name} a {has}"


def write_folder(folder: Path) -> None:
    """Make a reader's folder: files of the checkout, the options of its runs, and the profile of an example."""
    for name in ("docs", "deploy"):
        (folder / name).symlink_to(HOUSE / name)
    (folder / "esipp.yaml").write_text(yaml.safe_dump(OPTIONS))
    (folder / OWN_PROFILE).write_text(own_profile())


def own_profile() -> str:
    """The profile that a guide writes."""
    text = (HOUSE / "docs" / "guides" / "your-own-provider.md").read_text()
    found = re.search(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]
