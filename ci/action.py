"""`ci/action`: execute the `run:` steps of action.yml on the kept cluster, as a runner of GitHub does.

Steps that use other actions are named and left out. A step that gets the input ``context`` runs where the cluster is,
the others where pip finds packages. The run's folder is copied to runs/action.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ci import account
from ci.access import ClusterAccess
from ci.places import CONTEXT, ROOT, places
from ci.step import SetupError, exit_code_of
from ci.wheel import outside_of_the_checkout

ACTION = ROOT / "action.yml"
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
"""The variables that name files, by which a step speaks to its runner."""

WHERE = "${{ inputs.context }}"


class Runner:
    """What a runner keeps between the steps of an action; ``values`` are those of its expressions."""

    def __init__(self, there: ClusterAccess, inputs: Mapping[str, str], folder: Path) -> None:
        self.there = there
        self.folder = folder
        self.values = {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": str(ROOT)}
        self.files = {name: folder / name for name in FILES}
        for file in self.files.values():
            file.touch()

    def run(self, step: dict[str, Any]) -> int:
        """Execute a step and read what it says to its runner; return its exit code."""
        given = {name: str(value) for name, value in (step.get("env") or {}).items()}
        inside = WHERE in given.values()
        command = ["esipp", "run", "--context", CONTEXT]  # what the account's kubeconfig is for
        environment = account.environment(self.there, command) if inside else dict(os.environ)
        environment = outside_of_the_checkout(environment) | self._pairs("GITHUB_ENV")
        paths = self.files["GITHUB_PATH"].read_text().splitlines()
        environment["PATH"] = ":".join([*reversed(paths), environment["PATH"]])
        environment |= {name: str(file) for name, file in self.files.items()}
        environment |= {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(self.folder)}
        environment |= {name: self.put(value) for name, value in given.items()}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        prefix = self.there.prefix if inside else []
        code = subprocess.run([*prefix, *shell], cwd=self.folder, env=environment, check=False).returncode
        for name, value in self._pairs("GITHUB_OUTPUT").items():
            self.values[f"steps.{step.get('id')}.outputs.{name}"] = value
        self.files["GITHUB_OUTPUT"].write_text("")
        return code

    def put(self, text: str) -> str:
        """A text with the values of its expressions; outputs of a step that did not run are empty."""
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: self.values.get(found[1], ""), text)

    def _pairs(self, file: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.files[file].read_text().splitlines())


def main(arguments: Sequence[str]) -> int:
    """Execute the steps, print the action's outputs, and return the exit code of the step that failed, or 0."""
    return exit_code_of(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    inputs = inputs_of(action, arguments)
    with tempfile.TemporaryDirectory(prefix="esipp-action-") as work:
        runner = Runner(ClusterAccess.kept(places()), inputs, Path(work))
        code = 0
        for step in action["runs"]["steps"]:
            left_out = "run" not in step or code
            name = runner.put(step.get("name") or step.get("uses") or step["run"])
            print(f"[{'left out' if left_out else 'run'}] {name}", flush=True)
            code = code if left_out else runner.run(step)
        outputs = {name: runner.put(each["value"]) for name, each in action["outputs"].items()}
        for name, value in outputs.items():
            print(f"{name}={value}")
        print(f"job summary: {runner.files['GITHUB_STEP_SUMMARY'].stat().st_size} bytes")
        keep(outputs["folder"])
        return code


def inputs_of(action: dict[str, Any], arguments: Sequence[str]) -> dict[str, str]:
    """The inputs of an action: its defaults, the kept cluster's context, and those that are given.

    Raises:
        SetupError: an argument is none of its inputs.
    """
    inputs = {name: str(each.get("default", "")) for name, each in action["inputs"].items()} | {"context": CONTEXT}
    given = dict(each.partition("=")[::2] for each in arguments)
    if unknown := sorted(given.keys() - inputs.keys()):
        raise SetupError(f"The action has no input '{unknown[0]}'.", f"INPUT=VALUE, with one of {', '.join(inputs)}.")
    return inputs | given


def keep(folder: str) -> None:
    """Copy the run's folder to runs/action, if there is one."""
    if folder and Path(folder).is_dir():
        kept = ROOT / "runs" / "action"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        print(f"the run's folder: {kept}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
