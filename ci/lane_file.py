"""A lane: the kind config, Kubernetes version, load balancers and checks of one run.

``extends: NAME`` takes over all keys of another lane; the lane's own keys replace them. Only ``exclude`` is appended: a
check that the other lane excludes stays excluded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from ci import emulation
from ci.hermetic.store import key_of
from ci.needs import REGISTRY, Component, Requirement
from ci.places import CI, ROOT, versions
from ci.step import SetupError
from esipp.app.selection import select
from esipp.base import strict
from esipp.base.errors import PreflightError

LANES = CI / "lanes"
METALLB, METALLB_BGP, REFERENCE = "metallb-l2", "metallb-bgp", "reference"
CILIUM_L2, CILIUM_BGP = "cilium-l2", "cilium-bgp"
BUILT_IN, CILIUM, FLANNEL, KUBE_PROXY = "built-in", "cilium", "flannel", "kube-proxy"
POD_SUBNETS = {"ipv4": "10.244.0.0/16", "ipv6": "fd00:10:244::/56"}
"""kind's own (pkg/apis/config/v1alpha4/default.go in its module)."""
PATIENCE = 5
"""Health check timeout of the reference load balancer in seconds. A late answer on a busy machine is no
failure, and a node without a local endpoint answers 503 at once. An emulation uses the profile's, if any."""

MOST_SKEW = 3
"""The most minor versions that kube-proxy may be older than the API server:
https://kubernetes.io/releases/version-skew-policy/#kube-proxy."""

HINT = "ci/README.md has the keys of a lane; compare it with kind-iptables.yaml."


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text")
    return " ".join(text.split())


def _check(part: str) -> str:
    try:
        select([part.strip()])
    except PreflightError:
        raise ValueError(f"no check matches '{part}'; 'esipp list' prints all ids") from None
    return part.strip()


def _version(text: str) -> str:
    if not re.fullmatch(r"v\d+\.\d+\.\d+", text):
        raise ValueError(f"'{text}' is not a version like v1.36.3")
    return text


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _suite(name: str) -> str:
    if not (ROOT / "suites" / name).is_dir():
        raise ValueError(f"there is no suites/{name}")
    return name


def _kind_config(name: str, _: type[Path]) -> Path:
    path = ROOT / "kind-configs" / str(name)
    if not path.is_file():
        raise ValueError(f"there is no kind-configs/{name}")
    return path


def _above_zero(number: int) -> int:
    if number < 1:
        raise ValueError(f"expected a whole number above 0, not {number}")
    return number


Text = Annotated[str, _one_line]


@dataclass(frozen=True)
class Choice:
    """A check that a lane includes or excludes, by its id or a part of it, with a reason."""

    check: Annotated[str, _check] = field(metadata={"key": "row"})
    reason: Text


@dataclass(frozen=True)
class Lane:
    """One file of ci/lanes/: each field is a key of it.

    Args:
        fail_on: the lowest level at which a failure fails the lane.
        include: if not empty, only these checks run.
        emulates: the profile that the reference load balancer emulates.
        addresses: VIPs of each family, as of a cloud's load balancer with one in each zone.
        moves: endpoint changes up, and as many down; default: that of `esipp run`.
        network: ``built-in`` is kind's own add-on, or on the hermetic path `network_addon.py`; ``calico`` is
            ``published`` (`ci/published.py`).
        masquerade: whether the built-in network masquerades what pods send out of their network. kind's own always
            does; `hermetic/masquerading.py` imitates it.
        service_proxy: ``kube-proxy``, in the mode of the kind config, or ``cilium``, which is then the network, too.
        kube_proxy: the version of kube-proxy; default: that of Kubernetes. It may be up to three minor versions older.
        cilium: the version of Cilium; default: that of `ci/versions.toml`.
        cilium_values: values of its chart, in addition to those of all lanes (`ci/cilium-values.yaml`).
        needs: requirements that not every machine meets, with reasons: kernel modules, or a ``registry`` for published
            images that the hermetic path cannot build.
        published: components that are used as published images.
        tolerations: taints of nodes that runs tolerate (`esipp run --toleration`).
        requires: features that the cluster must have (`esipp run --require`): without one, fewer checks would run, and
            the lane would pass all the same.
    """

    name: str
    description: Text
    kind_config: Path
    kubernetes: Annotated[str, _version]
    load_balancers: tuple[Literal["metallb-l2", "metallb-bgp", "cilium-l2", "cilium-bgp", "reference"], ...]
    fail_on: Literal["core", "extended"]
    extends: str = ""
    suites: tuple[Annotated[str, _suite], ...] = ()
    include: tuple[Choice, ...] = ()
    exclude: tuple[Choice, ...] = ()
    emulates: str = ""
    addresses: Annotated[int, _above_zero] = 1
    moves: Annotated[int, _above_zero] | None = None
    network: Literal["built-in", "cilium", "flannel", "calico"] = "built-in"
    masquerade: bool = False
    service_proxy: Literal["kube-proxy", "cilium"] = "kube-proxy"
    kube_proxy: Annotated[str, _version] | None = None
    cilium: Annotated[str, _version] | None = None
    cilium_values: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[Requirement, Text] = field(default_factory=dict)
    published: tuple[Component, ...] = ()
    tolerations: tuple[Text, ...] = ()
    requires: tuple[Text, ...] = ()

    def __post_init__(self) -> None:
        own = [each for each in self.load_balancers if each != REFERENCE]
        if len(own) > 1:
            raise ValueError(f"it enables {' and '.join(own)}; one of them serves Services without a class")
        if {CILIUM_L2, CILIUM_BGP} & set(own) and not self.has_cilium:
            raise ValueError(f"it enables {own[0]}, but has no Cilium")
        if self.emulates and self.load_balancers != (REFERENCE,):
            raise ValueError(
                f"it emulates {self.emulates}, but has another load balancer than the reference one, "
                "which then serves Services without a class"
            )
        if self.addresses > 1 and not self.emulates:
            raise ValueError("it has 'addresses', but emulates no load balancer")
        if self.service_proxy == CILIUM and not self.has_cilium:
            raise ValueError(f"the service proxy 'cilium' needs the network 'cilium', not '{self.network}'")
        if self.kube_proxy:
            self._check_skew(self.kube_proxy)
        for key in ("cilium", "cilium_values"):
            if getattr(self, key) and not self.has_cilium:
                raise ValueError(f"it has '{key}', but no Cilium")
        if self.masquerade and self.network != BUILT_IN:
            raise ValueError(f"it has 'masquerade', which is for the built-in network and not for '{self.network}'")
        if self.published and REGISTRY not in self.needs:
            raise ValueError(f"it uses '{self.published[0]}' as published, but does not need a registry")
        networking = self._networking
        wanted = {"disableDefaultCNI": self.network != BUILT_IN, "kubeProxyMode": self.service_proxy != KUBE_PROXY}
        found = {
            "disableDefaultCNI": networking.get("disableDefaultCNI", False),
            "kubeProxyMode": networking.get("kubeProxyMode") == "none",
        }
        for key in (key for key in wanted if found[key] is not wanted[key]):
            raise ValueError(
                f"kind-configs/{self.kind_config.name} does not fit 'network: {self.network}', 'service_proxy: "
                f"{self.service_proxy}': see {key} there. disableDefaultCNI is true with another network than the "
                "built-in one, kubeProxyMode is none with another service proxy than kube-proxy"
            )

    def _check_skew(self, version: str) -> None:
        if self.service_proxy != KUBE_PROXY:
            raise ValueError(f"it has 'kube_proxy', but the service proxy is '{self.service_proxy}'")
        skew = _minor(self.kubernetes) - _minor(version)
        if not 0 <= skew <= MOST_SKEW:
            raise ValueError(
                f"kube-proxy {version} does not fit Kubernetes {self.kubernetes}: it may be up to {MOST_SKEW} minor "
                "versions older than the API server, and not newer"
            )

    @property
    def has_cilium(self) -> bool:
        """Whether the lane uses Cilium."""
        return self.network == CILIUM

    @property
    def has_router(self) -> bool:
        """Whether a router next to the nodes receives the routes of its load balancer."""
        return bool({METALLB_BGP, CILIUM_BGP} & set(self.load_balancers))

    @property
    def made_from(self) -> str:
        """What a cluster is made from, beside its kind config: a kept one of something else is not used."""
        proxy = f"kube-proxy {self.kube_proxy}" if self.kube_proxy else ""
        return ", ".join(filter(None, (self._add_on, proxy)))

    @property
    def _add_on(self) -> str:
        if self.network == CILIUM:
            values = key_of(CI / "cilium-values.yaml", dict(self.cilium_values))
            return f"Cilium's values: {values}, {self.cilium_version}"
        if self.network == FLANNEL:
            return f"flannel {versions()['flannel']['version']}"
        return "masquerades" if self.masquerade else ""

    @property
    def pod_subnets(self) -> dict[str, str]:
        """The subnets of pods by family, ``ipv4`` and ``ipv6``: those of its kind config, else kind's own."""
        family = self._networking.get("ipFamily", "ipv4")
        default = ",".join(net for key, net in POD_SUBNETS.items() if family in (key, "dual"))
        nets = [net.strip() for net in (self._networking.get("podSubnet") or default).split(",")]
        return {"ipv6" if ":" in net else "ipv4": net for net in nets}

    @property
    def _networking(self) -> dict[str, Any]:
        return (yaml.safe_load(self.kind_config.read_text()) or {}).get("networking") or {}

    @property
    def control_planes(self) -> int:
        """How many control plane nodes its kind config has."""
        nodes = (yaml.safe_load(self.kind_config.read_text()) or {}).get("nodes") or []
        return sum(node.get("role") == "control-plane" for node in nodes)

    @property
    def cilium_version(self) -> str:
        """The version of Cilium, if the lane uses it."""
        return self.cilium or str(versions()["cilium"]["default"])

    @property
    def balancer_options(self) -> list[str]:
        """The options of the reference load balancer."""
        own = emulation.options(self.emulates) if self.emulates else []
        if not any(each.startswith("--timeout=") for each in own):
            own = [*own, f"--timeout={PATIENCE}"]
        return [*own, f"--addresses={self.addresses}"] if self.addresses > 1 else own


_CONVERTER = strict.converter()
_CONVERTER.register_structure_hook(Path, _kind_config)


def load(name: str, kubernetes: str | None = None, lanes: Path = LANES, cilium: str | None = None) -> Lane:
    """Read and check a lane.

    Args:
        name: its name.
        kubernetes: another version of Kubernetes than its own.
        lanes: the folder of all lanes.
        cilium: another version of Cilium than its own.

    Raises:
        SetupError: the lane or one that it extends does not exist, is invalid, or extends itself.
    """
    keys = _merged(name, lanes)
    if kubernetes:
        keys["kubernetes"] = kubernetes
    if cilium:
        keys["cilium"] = cilium
    try:
        if keys.setdefault("name", name) != name:
            raise strict.FormError("name", f"must match the file's, '{name}'")
        lane: Lane = strict.read(keys, Lane, _CONVERTER)
    except strict.FormError as wrong:
        raise SetupError(f"ci/lanes/{name}.yaml: {wrong}.", HINT) from None
    _ = lane.balancer_options  # a profile that cannot be emulated is reported before there is a cluster
    return lane


def _merged(name: str, lanes: Path, heirs: tuple[str, ...] = ()) -> dict[str, Any]:
    """All keys of a lane, which its ``heirs`` extend."""
    names = sorted(path.stem for path in lanes.glob("*.yaml"))
    if name in heirs:
        way = " extends ".join([*heirs[heirs.index(name) :], name])
        raise SetupError(f"The lane '{name}' extends itself: {way}.", "one of them must not extend another.")
    if name not in names:
        whose = f", which '{heirs[-1]}' extends" if heirs else ""
        raise SetupError(f"There is no lane '{name}'{whose}.", f"lanes in ci/lanes/: {', '.join(names)}")
    try:
        own = yaml.safe_load((lanes / f"{name}.yaml").read_text())
    except yaml.YAMLError as error:
        raise SetupError(f"ci/lanes/{name}.yaml is not valid YAML: {error}.", HINT) from error
    if not isinstance(own, dict):
        raise SetupError(f"ci/lanes/{name}.yaml is not a mapping.", HINT)
    if "extends" not in own:
        return dict(own)
    base = _merged(str(own["extends"]), lanes, (*heirs, name))
    left_out, more = (each.get("exclude", []) for each in (base, own))
    both = isinstance(left_out, list) and isinstance(more, list)
    return {**base, **own, "exclude": [*left_out, *more] if both else more}
