"""`ci/gitlab`: execute the job `qualify` of deploy/gitlab-ci.example.yml on the kept cluster, as GitLab's runner does.

Its script runs where the cluster is, from an empty folder, with this checkout's wheel in the place of the job's image.
Arguments are keys of an esipp.yaml in that folder, such as ``profile=quick``. The artifacts are copied to runs/gitlab.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from ci import account, wheel
from ci.access import ClusterAccess
from ci.places import CONTEXT, ROOT, places
from ci.step import SetupError, exit_code_of

TEMPLATE = ROOT / "deploy" / "gitlab-ci.example.yml"
JOB = "qualify"
OPTIONS = "esipp.yaml"


def main(arguments: Sequence[str]) -> int:
    """Execute the job, print what a merge request would show, and return the exit code of its script."""
    return exit_code_of(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    template = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))
    job = template[JOB]
    there = ClusterAccess.kept(places())
    options = options_of(arguments)
    with wheel.installed() as (programs, empty):
        (empty / "runs").unlink()  # the job's own folder, as on a runner
        (empty / OPTIONS).write_text(yaml.safe_dump(options), encoding="utf-8")
        given = {**template["variables"], **job["variables"], "CLUSTER": CONTEXT, "HOME": str(empty / "home")}
        code = _run(there, programs, empty, given, job["script"])
        after = _run(there, programs, empty, given, job["after_script"])
        print(f"script: exit code {code}; after_script: {after}, which GitLab ignores")
        keep(empty, job["artifacts"])
        return code


def options_of(arguments: Sequence[str]) -> dict[str, Any]:
    """The keys of esipp.yaml.

    Raises:
        SetupError: an argument is not KEY=VALUE.
    """
    for each in arguments:
        if "=" not in each:
            raise SetupError(f"'{each}' is no key of {OPTIONS} with a value.", "KEY=VALUE, such as profile=quick.")
    return {name: yaml.safe_load(value) for name, _, value in (each.partition("=") for each in arguments)}


def _run(there: ClusterAccess, programs: Path, folder: Path, given: Mapping[str, Any], script: Sequence[str]) -> int:
    """Execute the lines of a script in one shell that ends with the first failure."""
    command = ["esipp", "run", "--context", CONTEXT]  # what the account's kubeconfig is for
    environment = wheel.outside_of_the_checkout(account.environment(there, command)) | {"GITLAB_CI": "true"}
    environment |= {name: str(value) for name, value in given.items()}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(script)]
    return subprocess.run([*there.prefix, *shell], cwd=folder, env=environment, check=False).returncode


def keep(folder: Path, artifacts: Mapping[str, Any]) -> None:
    """Copy the artifacts to runs/gitlab, and say what their JUnit report counts.

    Raises:
        SetupError: the report is not there, or is no XML.
    """
    kept = ROOT / "runs" / "gitlab"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for each in artifacts["paths"]:
        source = folder / each
        if source.is_dir():
            shutil.copytree(source, kept / each, symlinks=True)
        elif source.is_file():
            shutil.copy(source, kept / each)
        else:
            print(f"WARNING: {each}: no matching files")  # as a runner says
    report = folder / artifacts["reports"]["junit"]
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - our own
    except (OSError, ElementTree.ParseError) as broken:
        raise SetupError(f"GitLab would show no tests: {report.name}: {broken}.", "see the job's output.") from None
    red = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    print(f"{report.name}: {len(cases)} tests, {red} failed")
    print(f"artifacts: {os.path.relpath(kept)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
