"""A lane: the kind config, Kubernetes version, load balancers and checks of one run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci import data_plane, emulation, needs
from ci.data_plane import DataPlane
from ci.lane_merge import EMULATES, EXCLUDE, INCLUDE, KEYS, MOVES, NEEDS, PUBLISHED, merged
from ci.places import CI, ROOT
from ci.step import SetupError
from esipp.app.cli import select
from esipp.base.errors import PreflightError

LANES = CI / "lanes"
METALLB, METALLB_BGP, REFERENCE = "metallb-l2", "metallb-bgp", "reference"
KNOWN_LOAD_BALANCERS = (METALLB, METALLB_BGP, REFERENCE)
PATIENCE = 5
"""Health check timeout of the reference load balancer in seconds. A late answer on a busy machine is no
failure, and a node without a local endpoint answers 503 at once. An emulation uses the profile's timeout."""

LEVELS = ("core", "extended")


@dataclass(frozen=True)
class Choice:
    """A check that a lane includes or excludes, by its id or a part of it, with a reason."""

    check: str
    reason: str


@dataclass(frozen=True)
class Lane:
    """One file of ci/lanes/."""

    name: str
    description: str
    kind_config: Path
    kubernetes: str
    load_balancers: tuple[str, ...]
    suites: tuple[str, ...]
    fail_on: str  # lowest level at which a failure fails the lane
    include: tuple[Choice, ...] = ()  # if not empty, only these checks run
    exclude: tuple[Choice, ...] = ()
    emulates: str = ""  # profile that the reference load balancer emulates
    moves: int | None = None  # endpoint changes up, and as many down; default: that of `esipp run`
    data_plane: DataPlane = field(default_factory=DataPlane)
    needs: Mapping[str, str] = field(default_factory=dict)  # requirements of the machine, with reasons
    published: tuple[str, ...] = ()  # components that are used as published images

    @property
    def balancer_options(self) -> list[str]:
        """The options of the reference load balancer."""
        return emulation.options(self.emulates) if self.emulates else [f"--timeout={PATIENCE}"]


def load(name: str, kubernetes: str | None = None, lanes: Path = LANES) -> Lane:
    """Read and check a lane; `kubernetes` overrides its version."""
    data = merged(name, lanes)
    path = lanes / f"{name}.yaml"
    for key, kind in KEYS.items():
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
    if {METALLB, METALLB_BGP} <= set(data["load_balancers"]):
        raise SetupError(
            f"ci/lanes/{path.name} enables both protocols of MetalLB.",
            "choose one, which then serves Services without a class.",
        )
    if missing := [suite for suite in data["suites"] if not (ROOT / "suites" / str(suite)).is_dir()]:
        raise SetupError(f"ci/lanes/{path.name} names suites/{missing[0]}, which does not exist.", "see suites/")
    if data["fail_on"] not in LEVELS:
        raise SetupError(
            f"ci/lanes/{path.name}: 'fail_on' is '{data['fail_on']}', which is not a level.",
            f"known: {', '.join(LEVELS)}",
        )
    dressed, moves = data.get(EMULATES, ""), data.get(MOVES)
    if not isinstance(dressed, str):
        raise SetupError(
            f"ci/lanes/{path.name}: '{EMULATES}' is not the name of a profile.", "'esipp load-balancers' lists them."
        )
    if dressed and data["load_balancers"] != [REFERENCE]:
        raise SetupError(
            f"ci/lanes/{path.name} emulates {dressed}, but has another load balancer than the reference one.",
            f"use load_balancers: [{REFERENCE}], which then serves Services without a class.",
        )
    if moves is not None and not (isinstance(moves, int) and moves > 0):
        raise SetupError(
            f"ci/lanes/{path.name}: '{MOVES}' is not a number of endpoint changes.", "use a whole number above 0."
        )
    needed = needs.read(path.name, data.get(NEEDS, {}))
    lane = Lane(
        name=name,
        description=data["description"],
        kind_config=config,
        kubernetes=version,
        load_balancers=tuple(data["load_balancers"]),
        suites=tuple(data["suites"]),
        fail_on=data["fail_on"],
        include=_choices(path.name, data.get(INCLUDE, [])),
        exclude=_choices(path.name, data.get(EXCLUDE, [])),
        emulates=dressed,
        moves=moves,
        data_plane=data_plane.read(path.name, data, config),
        needs=needed,
        published=needs.published(path.name, data.get(PUBLISHED, []), needed),
    )
    _ = lane.balancer_options  # a profile that cannot be worn is told before there is a cluster
    return lane


def _choices(file: str, choices: list[dict[str, Any]]) -> tuple[Choice, ...]:
    """The checks that a lane chooses or leaves out."""
    found = tuple(Choice(str(each["row"]).strip(), " ".join(str(each["reason"]).split())) for each in choices)
    for choice in found:
        try:
            select([choice.check])
        except PreflightError:
            raise SetupError(
                f"ci/lanes/{file}: no check matches '{choice.check}'.", "'esipp list' prints all ids."
            ) from None
    return found
