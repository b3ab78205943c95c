"""Each guide on the kept cluster: its commands, with the rights of the account that it creates."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci import account, lane_file, loadbalancer
from ci.access import ClusterAccess
from ci.lane_file import Lane
from esipp.base.dns import RESOLVER
from tests.guides.commands import name_of, of_page
from tests.guides.here import BREAKS, MENDS, PAGES, Step, steps, write_folder
from tests.guides.running import Done, run
from tests.hosts.bridged import Hosts

pytestmark = pytest.mark.timeout(4 * 3600)  # each step has a timeout of its own


class Dressed:
    """The reference load balancer of a lane, with the profile that a step names."""

    def __init__(self, there: ClusterAccess, lane: Lane) -> None:
        self.there, self.lane = there, lane
        self.profile = lane.emulates

    def dress(self, profile: str) -> None:
        """Give it another profile's class, health checks and form; an empty one stands for the lane's own."""
        wanted = profile or self.lane.emulates
        if wanted != self.profile:
            options = replace(self.lane, emulates=wanted).balancer_options
            loadbalancer.run(self.there, loadbalancer.image_of(self.there), (), options)
            self.profile = wanted


def stub(folder: Path, there: ClusterAccess) -> Path:
    """A folder for PATH with an `esipp` that speaks to the API server as the account of docs/rbac.yaml."""
    found = account.environment(there, ["esipp", "run", "--context="])
    lines = [f"export {name}='{found[name]}'" for name in ("KUBECONFIG", RESOLVER) if name in found]
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    program = bin_folder / "esipp"
    real = Path(sys.executable).with_name("esipp")
    program.write_text("\n".join(["#!/bin/sh", *lines, f"exec '{real}' \"$@\"", ""]))
    program.chmod(0o755)
    return bin_folder


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_its_commands_end_as_they_must(
    page: Path, there: ClusterAccess, clients: Hosts, done: list[Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = lane_file.load(there.lane)
    write_folder(tmp_path)
    monkeypatch.chdir(tmp_path)  # profiles of files are read from there
    programs = stub(tmp_path, there)
    env = {
        **clients.env,
        "PATH": f"{programs}:{clients.env.get('PATH', os.environ['PATH'])}",
        "ESIPP_IMAGE": there.image,
    }
    dressed = Dressed(there, lane)

    def before(step: Step) -> None:
        if lane.emulates:
            dressed.dress(step.provider)

    own = list[Done]()
    try:
        for each in run(steps(of_page(page), lane), tmp_path, env, before):
            print(each.last, flush=True)
            own.append(each)
    finally:
        done += own
        if any(re.search(BREAKS, each.step.text) for each in own):
            subprocess.run(MENDS.split(), env=env, check=False)
        dressed.dress("")
        account.kubeconfig(there)  # the account again, if the page has deleted it
    assert not [each.last for each in own if not each.as_wanted]
