"""A lane: which kind config, Kubernetes version, load balancers and cells make one run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from ci.places import CI, ROOT
from ci.step import SetupError

LANES = CI / "lanes"
KNOWN_LOAD_BALANCERS = ("metallb-l2", "reference")
LEVELS = ("core", "extended", "timed")


@dataclass(frozen=True)
class Lane:
    """One file of ci/lanes/."""

    name: str
    description: str
    kind_config: Path
    kubernetes: str
    load_balancers: tuple[str, ...]
    suites: tuple[str, ...]
    fail_on: str  # the least binding level whose failures make the lane fail


def load(name: str, kubernetes: str | None = None, lanes: Path = LANES) -> Lane:
    """Read and check a lane; `kubernetes` overrides its version."""
    names = sorted(path.stem for path in lanes.glob("*.yaml"))
    if name not in names:
        raise SetupError(f"There is no lane '{name}'.", f"the lanes of ci/lanes/ are: {', '.join(names)}")
    path = lanes / f"{name}.yaml"
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise SetupError(
            f"ci/lanes/{path.name} is not valid YAML: {error}.", "compare it with kind-iptables.yaml"
        ) from error
    wanted = {
        "description": str,
        "kind_config": str,
        "kubernetes": str,
        "load_balancers": list,
        "suites": list,
        "fail_on": str,
    }
    if not isinstance(data, dict):
        raise SetupError(f"ci/lanes/{path.name} is not a mapping.", f"its keys are: {', '.join(wanted)}")
    if unknown := sorted(str(key) for key in set(data) - set(wanted)):
        raise SetupError(
            f"ci/lanes/{path.name} has the unknown key '{unknown[0]}'.", f"known keys: {', '.join(wanted)}"
        )
    for key, kind in wanted.items():
        if not isinstance(data.get(key), kind):
            raise SetupError(
                f"ci/lanes/{path.name}: '{key}' is missing or not a {kind.__name__}.", "see kind-iptables.yaml"
            )
    version = kubernetes or data["kubernetes"]
    if not re.fullmatch(r"v\d+\.\d+\.\d+", version):
        raise SetupError(f"'{version}' is not a Kubernetes version.", "write it like v1.36.3")
    config = ROOT / "kind-configs" / data["kind_config"]
    if not config.is_file():
        raise SetupError(
            f"ci/lanes/{path.name} names kind-configs/{config.name}, which does not exist.", "see kind-configs/"
        )
    if strange := [lb for lb in data["load_balancers"] if lb not in KNOWN_LOAD_BALANCERS]:
        raise SetupError(
            f"ci/lanes/{path.name} names the unknown load balancer '{strange[0]}'.",
            f"known: {', '.join(KNOWN_LOAD_BALANCERS)}",
        )
    if missing := [suite for suite in data["suites"] if not (ROOT / "suites" / str(suite)).is_dir()]:
        raise SetupError(f"ci/lanes/{path.name} names suites/{missing[0]}, which does not exist.", "see suites/")
    if data["fail_on"] not in LEVELS:
        raise SetupError(
            f"ci/lanes/{path.name}: 'fail_on' is '{data['fail_on']}', which is no level.", f"known: {', '.join(LEVELS)}"
        )
    return Lane(
        name=name,
        description=data["description"],
        kind_config=config,
        kubernetes=version,
        load_balancers=tuple(data["load_balancers"]),
        suites=tuple(data["suites"]),
        fail_on=data["fail_on"],
    )
