"""What is applied and what pipelines run: it names what there is, with the rights of docs/rbac.yaml and no others."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

import hatch_build
from ci import lane_file, suite_requirements
from ci.lane import split
from esipp.app.cli import _parser, check_run
from esipp.app.in_cluster import credentials, job, keep, sonobuoy
from esipp.app.in_cluster.command import JOB, NAMESPACE
from esipp.app.in_cluster.state import KEEPER, RUNNER
from esipp.base.errors import ExitCode
from esipp.base.json import Json
from esipp.checks.catalog import HOUSE
from esipp.testbed import echo_image
from esipp.testbed.images import this_version
from tests.incluster.test_inside import FEW, ONE
from tests.tools import needs_tool

DEPLOY, WORKFLOW = HOUSE / "deploy", HOUSE / ".github" / "workflows" / "conformance.yaml"
IN_CLUSTER = ["--context", "c"]  # what the pod's own account stands for is not there in a test


def loaded(path: Path) -> Any:
    (found,) = yaml.safe_load_all(path.read_text())
    return found


@pytest.fixture(scope="module")
def the_job() -> Json:
    return dict(loaded(DEPLOY / "job.yaml"))


@pytest.fixture(scope="module")
def plugin() -> Json:
    return dict(loaded(DEPLOY / "sonobuoy-plugin.yaml"))


def pod_of(the_job: Json) -> Json:
    return dict(the_job["spec"]["template"]["spec"])


# ---------------------------------------------------------------------------------------------------------- as a Job
def test_the_job_has_the_account_of_the_page_and_brings_no_rights() -> None:
    rights = list(yaml.safe_load_all((HOUSE / "docs" / "rbac.yaml").read_text()))
    (account,) = [each for each in rights if each["kind"] == "ServiceAccount"]
    made = list(yaml.safe_load_all((DEPLOY / "job.yaml").read_text()))
    assert [each["kind"] for each in made] == ["Job"]
    assert made[0]["metadata"]["namespace"] == account["metadata"]["namespace"] == NAMESPACE
    assert pod_of(made[0])["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False, "nobody else's pod gets it"


MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_only_the_container_that_runs_has_a_token_and_it_soon_ends(the_job: Json) -> None:
    pod = pod_of(the_job)
    assert pod["automountServiceAccountToken"] is False
    tokens = {
        each["name"]: source["serviceAccountToken"]
        for each in pod["volumes"]
        for source in each.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    }
    ((volume, token),) = tokens.items()
    assert 600 <= token["expirationSeconds"] <= 3600, "the API has 600 at least; 3607 would be a year's"
    (runner,), (keeper,) = pod["initContainers"], pod["containers"]
    assert "restartPolicy" not in runner, "one that ends before the other begins"
    mounts = {mount["name"]: mount["mountPath"] for mount in runner["volumeMounts"]}
    assert mounts[volume] == MOUNT == str(credentials.ACCOUNT)
    assert {mount["name"] for mount in keeper["volumeMounts"]} == {"report"}
    assert not any("secret" in each for each in pod["volumes"])
    answer = {item["path"] for each in pod["volumes"] if each["name"] == volume for item in items_of(each)}
    assert answer == {"token", "ca.crt", "namespace"}


def items_of(volume: Json) -> list[Json]:
    sources = [next(iter(source.values())) for source in volume["projected"]["sources"]]
    return [item for source in sources for item in source.get("items", [source])]


def test_fetch_looks_for_that_job(the_job: Json) -> None:
    assert (the_job["metadata"]["namespace"], the_job["metadata"]["name"]) == (NAMESPACE, JOB)
    options = _parser().parse_args(["fetch", "--context", "c"])
    assert (options.namespace, options.job) == (NAMESPACE, JOB)
    pod = pod_of(the_job)
    assert [each["name"] for each in pod["initContainers"]] == [RUNNER]
    assert [each["name"] for each in pod["containers"]] == [KEEPER]
    notes = the_job["spec"]["template"]["metadata"]["annotations"]
    assert notes["kubectl.kubernetes.io/default-container"] == RUNNER, "kubectl logs shows the run"


def test_it_is_ready_when_its_report_is_and_may_clean_up_when_it_is_ended(the_job: Json) -> None:
    pod = pod_of(the_job)
    (container,) = pod["containers"]
    assert container["readinessProbe"]["exec"]["command"] == ["test", "-f", str(job.FOLDER / job.DESCRIPTION)]
    assert the_job["spec"]["backoffLimit"] == 0
    assert pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] >= 120


def test_what_the_containers_run_is_there_and_takes_their_options(the_job: Json, plugin: Json) -> None:
    pod = pod_of(the_job)
    (runner,), (keeper,) = pod["initContainers"], pod["containers"]
    for each, module in ((runner, job), (keeper, keep), (plugin["spec"], sonobuoy)):
        assert each["command"] == ["python3", "-m", module.__name__]
    assert runner["image"] == keeper["image"]
    own, options = split(runner["args"])
    assert job._parser().parse_args(own).folder == keep._parser().parse_args(keeper["args"]).folder
    assert keep._parser().parse_args(keeper["args"]).linger == 86400
    for words in (options, plugin["spec"]["args"], FEW, ONE):
        check_run([*IN_CLUSTER, *words])
    assert "env" not in {**runner, **plugin["spec"]}, "the image knows the echo image"


def test_its_pod_is_restricted_and_all_that_it_writes_to_is_mounted(the_job: Json, plugin: Json) -> None:
    pod = pod_of(the_job)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = {each["name"] for each in pod["volumes"]}
    of_the_plugin = {each["name"] for each in plugin["extra-volumes"]} | {"results"}
    containers = [(each, own) for each in (*pod["initContainers"], *pod["containers"])]
    for each, volumes in (*containers, (plugin["spec"], of_the_plugin)):
        context = each["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"] == {"drop": ["ALL"]}
        runs = each["name"] != KEEPER
        assert ("/tmp" in {mount["mountPath"] for mount in each["volumeMounts"]}) is runs  # noqa: S108 - the pod's own
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
    assert all("emptyDir" in each or "projected" in each for each in pod["volumes"]), "restricted allows these"
    for each, _ in containers:
        assert str(job.FOLDER) in {mount["mountPath"] for mount in each["volumeMounts"]}


# -------------------------------------------------------------------------------------------------------- by Sonobuoy
SONOBUOYS = {"driver", "plugin-name", "result-format", "result-files", "description", "source-url", "skip-cleanup"}


def test_the_plugin_says_what_sonobuoy_knows(plugin: Json) -> None:
    assert set(plugin) <= {"sonobuoy-config", "spec", "extra-volumes", "podSpec", "config-map"}
    config = plugin["sonobuoy-config"]
    assert set(config) <= SONOBUOYS
    assert (config["driver"], config["result-format"], config["result-files"]) == ("Job", "junit", ["junit.xml"])
    mounts = {mount["name"]: mount["mountPath"] for mount in plugin["spec"]["volumeMounts"]}
    assert mounts["results"] == sonobuoy.RESULTS


# ----------------------------------------------------------------------------------------------------------- the image
def test_the_image_has_what_a_run_needs_of_the_pinned_packages_and_nothing_else() -> None:
    kept = suite_requirements.render()
    names = set(re.findall(r"^([a-z0-9-]+)==", kept, re.MULTILINE))
    assert {"kubernetes", "pytest", "scapy", "urllib3"} <= names
    assert not names & {"mypy", "ruff", "hypothesis", "pyroute2"}
    assert "://" not in kept


DOCKERFILE = HOUSE / "images" / "esipp" / "Dockerfile"


def copies() -> list[tuple[list[str], str]]:
    """What the image's Dockerfile copies of the checkout, and where to."""
    lines = [line.split()[1:] for line in DOCKERFILE.read_text().splitlines() if line.startswith("COPY ")]
    return [(words[:-1], words[-1]) for words in lines if not words[0].startswith("--from")]


def test_all_that_the_image_copies_is_let_into_its_context() -> None:
    allowed = {line[1:] for line in (HOUSE / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for sources, _ in copies() for source in sources}
    assert copied == allowed
    assert all((HOUSE / each).exists() for each in copied)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the image, as far as they are of the checkout."""
    made = tmp_path_factory.mktemp("image")
    for sources, there in copies():
        folder = made / there.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for source in (HOUSE / each for each in sources):
            if source.is_dir():
                shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            else:
                shutil.copy(source, folder)
    return made


def within(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of esipp with the image's files, where there is no docker."""
    environment = {"PYTHONPATH": str(root / "opt/esipp/house"), "PYTHONSAFEPATH": "1", "PATH": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-m", "esipp", *words], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_in_the_image_esipp_knows_the_echo_image_and_says_that_it_builds_none(root: Path) -> None:
    listed = within(root, "images", "--format", "json")
    assert [json.loads(line)["reference"] for line in listed.stdout.splitlines()] == [this_version()], listed.stderr
    done = within(root, "images", "build")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith("esipp: Cannot run docker: it is not on PATH.\n  hint: use a machine that has docker")


def test_the_image_of_a_release_knows_its_echo_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = DOCKERFILE.read_text().replace("\\\n", " ").splitlines()
    (line,) = [line for line in lines if line.startswith("RUN ") and hatch_build.RELEASED in line]
    script = line.removeprefix("RUN ").replace("/opt/esipp/house", str(tmp_path))

    def built(image: str) -> int:
        return subprocess.run(["sh", "-c", script], env={hatch_build.RELEASED: image}, check=False).returncode

    monkeypatch.setattr(echo_image, "HOUSE", tmp_path)
    assert (built(""), echo_image.released_image()) == (0, "")
    assert built("r.example/echoserver:latest") == 1
    reference = "r.example/echoserver@sha256:" + "a" * 64
    assert (built(reference), echo_image.released_image()) == (0, reference)


def test_the_images_bases_are_named_by_digest_and_stand_elsewhere_too() -> None:
    text = DOCKERFILE.read_text()
    named = dict(re.findall(r"^ARG (\w+)=(\S+@sha256:[0-9a-f]{64})$", text, re.MULTILINE))
    assert named["BASE"] in (HOUSE / "images" / "echoserver" / "Dockerfile").read_text()
    assert named["KUBECTL"].removeprefix("docker.io/") in (HOUSE / "ci" / "versions.toml").read_text()


# ------------------------------------------------------------------------------------------------------------ pipelines
COMMAND = re.compile(r"\./(ci/[\w-]+)([^|&;\n]*)")
PLACEHOLDERS = {"$LANE": "kind-ipv4", "${{ matrix.lane }}": "kind-ipv4"}


def commands(path: Path) -> list[tuple[str, list[str]]]:
    """The commands of this repository that a file runs, with their options."""
    text = path.read_text()
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(placeholder, value)
    return [(name, shlex.split(rest)) for name, rest in COMMAND.findall(text)]


@pytest.mark.parametrize("path", [WORKFLOW, DEPLOY / "gitlab-ci.example.yml"], ids=lambda path: path.name)
def test_a_pipeline_runs_what_there_is_with_options_that_are_taken(path: Path) -> None:
    found = commands(path)
    assert any(name == "ci/conformance" for name, _ in found)
    for name, words in found:
        assert (HOUSE / name).stat().st_mode & 0o100, f"{name} can be run"
        own, options = split(words)
        if name == "ci/conformance" and "--down" not in own:
            lane = own[own.index("--lane") + 1]
            assert lane_file.load(lane).name == lane
            check_run([*IN_CLUSTER, *options])
    for words in re.findall(r"esipp (run|fetch|merge|clean) (.*)", path.read_text()):
        asked = shlex.split(" ".join(words).partition("||")[0].partition("&&")[0].partition(" #")[0])
        _parser().parse_args(asked)


def test_every_lane_has_its_runner_in_each_pipeline() -> None:
    of_github = loaded(WORKFLOW)["jobs"]["lane"]["strategy"]["matrix"]
    (of_gitlab,) = loaded(DEPLOY / "gitlab-ci.example.yml")["kind"]["parallel"]["matrix"]
    kinds = sorted(path.stem for path in lane_file.LANES.glob("kind-*.yaml"))
    assert of_github["lane"] == of_gitlab["LANE"] == kinds
    optional = [each["lane"] for each in of_github["include"] if each["optional"]]
    assert optional == [name for name in kinds if lane_file.load(name).needs]


RELEASE = WORKFLOW.with_name("release.yml")
AT_DIGEST = "${{{{ steps.{0}.outputs.name }}}}@${{{{ steps.{0}.outputs.digest }}}}"


def step_of_images(name: str) -> Json:
    (step,) = [each for each in loaded(RELEASE)["jobs"]["images"]["steps"] if each.get("id") == name]
    return dict(step)


@pytest.mark.parametrize("name", ["echoserver", "suite"])
def test_a_release_of_an_owner_with_capitals_names_images_without(name: str, tmp_path: Path) -> None:
    """With a docker that builds nothing, and a jq that reads a digest from nothing."""
    for program, script in (("docker", 'echo "$@" > said'), ("jq", "echo sha256:1")):
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / program).chmod(0o755)
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_OUTPUT": str(tmp_path / "outputs")}
    given |= {"REGISTRY": "ghcr.io/Some-Owner/esipp", "GITHUB_REF_NAME": "v1.2.3", hatch_build.RELEASED: "image@digest"}
    subprocess.run(["bash", "-ec", step_of_images(name)["run"]], cwd=tmp_path, env=given, check=True)
    assert (tmp_path / "outputs").read_text() == f"name=ghcr.io/some-owner/esipp/{name}\ndigest=sha256:1\n"
    said = (tmp_path / "said").read_text()
    assert f"--tag ghcr.io/some-owner/esipp/{name}:v1.2.3" in said
    assert "--platform linux/amd64,linux/arm64 --sbom=true --provenance=mode=max --push" in said


def test_a_release_names_its_registry_once_and_gives_the_wheel_the_images_digest() -> None:
    text = RELEASE.read_text()
    assert loaded(RELEASE)["env"] == {"REGISTRY": "ghcr.io/${{ github.repository_owner }}/esipp"}
    assert text.count("ghcr.io") == 1
    assert f"{hatch_build.RELEASED}: ${{{{ needs.images.outputs.echoserver }}}}" in text
    outputs = loaded(RELEASE)["jobs"]["images"]["outputs"]
    assert outputs == {name: AT_DIGEST.format(name) for name in ("echoserver", "suite")}
    assert loaded(RELEASE)["permissions"] == {"contents": "read"}


def test_a_release_gives_the_suites_image_the_digest_of_the_echo_image() -> None:
    step = step_of_images("suite")
    assert step["env"] == {hatch_build.RELEASED: AT_DIGEST.format("echoserver")}
    assert f'--build-arg "{hatch_build.RELEASED}=${hatch_build.RELEASED}"' in step["run"]
    assert f"ARG {hatch_build.RELEASED}=\n" in DOCKERFILE.read_text()


def test_a_release_brings_the_account_and_the_job_with_its_image(tmp_path: Path) -> None:
    script = "\n".join(step.get("run", "") for step in loaded(RELEASE)["jobs"]["release"]["steps"])
    lines = [line for line in script.splitlines() if line.endswith(("/job.yaml", "/sonobuoy-plugin.yaml"))]
    assert len(lines) == 2
    image = "r.example/suite@sha256:" + "a" * 64
    command = ["bash", "-ec", "\n".join(lines).replace("> dist/", f"> {tmp_path}/")]
    subprocess.run(command, cwd=HOUSE, env={"SUITE": image, "PATH": "/usr/bin:/bin"}, check=True)
    *account, job_ = [each for each in yaml.safe_load_all((tmp_path / "job.yaml").read_text()) if each]
    assert account == [each for each in yaml.safe_load_all((HOUSE / "docs" / "rbac.yaml").read_text()) if each]
    containers = [*pod_of(job_)["initContainers"], *pod_of(job_)["containers"]]
    containers.append(loaded(tmp_path / "sonobuoy-plugin.yaml")["spec"])
    assert [each["image"] for each in containers] == [image] * 3


def test_a_release_publishes_what_it_released_without_a_password() -> None:
    text, index = RELEASE.read_text(), loaded(RELEASE)["jobs"]["index"]
    assert (index["needs"], index["environment"]) == ("release", "pypi")
    assert index["permissions"] == {"contents": "read", "id-token": "write"}
    getting, publishing = index["steps"]
    assert publishing["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert set(publishing) == {"uses"}, "dist/ is its usual folder"
    assert "secrets." not in text
    patterns = re.findall(r"--pattern '(.*?)'", getting["run"])
    released = ("esipp-0.2.0-py3-none-any.whl", "esipp-0.2.0.tar.gz", "kubectl-esipp.tar.gz", "esipp.yaml", "job.yaml")
    assert [name for name in released if any(fnmatch(name, each) for each in patterns)] == list(released[:2])


ACTION = HOUSE / "action.yml"


ESIPP = """#!/bin/sh
cd "$RUNNER_TEMP"
printf '%s\\n' "$@" > asked
test ! -f report.json || { mkdir esipp-run && cp report.json esipp-run; }
exit 3
"""


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """What a runner of GitHub gives an action's step, with an esipp that notes its arguments and copies a report."""
    (tmp_path / "esipp/bin").mkdir(parents=True)
    (tmp_path / "esipp/bin/python").symlink_to(sys.executable)
    program = tmp_path / "esipp/bin/esipp"
    program.write_text(ESIPP)
    program.chmod(0o755)
    return {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "output"), "PATH": "/usr/bin:/bin"}


def run_step(environment: dict[str, str]) -> int:
    """Execute the step of the action that runs esipp, as GitHub does; return its exit code."""
    (step,) = [step for step in loaded(ACTION)["runs"]["steps"] if step.get("id") == "run"]
    return subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], env=environment, check=False).returncode


def test_the_action_runs_esipp_with_its_inputs_and_keeps_the_exit_code(tmp_path: Path, runner: dict[str, str]) -> None:
    inputs = {"CONTEXT": "kind-kind; touch x", "OPTIONS": "--profile quick nodeport.local"}
    assert run_step({**runner, **inputs}) == 3
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [
        *("run", "--context", "kind-kind; touch x", "--out", f"{tmp_path}/esipp-run"),
        *("--profile", "quick", "nodeport.local"),
    ]
    _parser().parse_args(asked)
    assert (tmp_path / "output").read_text().splitlines() == [f"folder={tmp_path}/esipp-run", "exit-code=3"]


def test_the_action_says_the_result_of_the_report(tmp_path: Path, runner: dict[str, str]) -> None:
    given = {**runner, "CONTEXT": "kind-kind", "OPTIONS": ""}
    (tmp_path / "report.json").write_text(json.dumps({"conclusion": {"result": "known defects"}}))
    assert run_step(given) == 3
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert said == {"folder": f"{tmp_path}/esipp-run", "exit-code": "3", "result": "known defects"}
    assert said.keys() == loaded(ACTION)["outputs"].keys()
    for name, output in loaded(ACTION)["outputs"].items():
        assert output["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
    (tmp_path / "esipp-run" / "report.json").write_text("{")
    (tmp_path / "report.json").unlink()
    assert run_step(given) == 3, "a report without a result is no verdict"


def test_the_actions_steps_put_no_input_into_a_script() -> None:
    for step in loaded(ACTION)["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "a script gets inputs by its environment"


@needs_tool("kubectl")
def test_the_kustomize_base_is_the_account_and_the_job() -> None:
    done = subprocess.run(["kubectl", "kustomize", HOUSE], capture_output=True, text=True, check=True)
    made = list(yaml.safe_load_all(done.stdout))
    files = [HOUSE / "docs" / "rbac.yaml", DEPLOY / "job.yaml"]
    expected = [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]
    whole = [sorted(json.dumps(each, sort_keys=True) for each in found) for found in (made, expected)]
    assert whole[0] == whole[1]


@pytest.mark.parametrize(
    ("programs", "said", "code"),
    [
        (["esipp", "pipx"], "esipp run -q", 0),
        (["pipx"], "pipx run --quiet --spec", 0),
        ([], "neither esipp nor pipx", 4),
    ],
)
def test_the_plugin_of_krew_runs_what_there_is(programs: list[str], said: str, code: int, tmp_path: Path) -> None:
    for name in programs:
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    line = ["/bin/sh", str(DEPLOY / "krew" / "kubectl-esipp"), "run", "-q"]
    done = subprocess.run(line, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_a_release_fills_in_the_manifest_of_krew() -> None:
    text, manifest = RELEASE.read_text(), (DEPLOY / "krew" / "esipp.yaml").read_text()
    for word in ("VERSION", "OWNER", "DIGEST"):
        assert word in manifest
        assert f"s/{word}/" in text
    assert loaded(DEPLOY / "krew" / "esipp.yaml")["spec"]["platforms"][0]["bin"] == "kubectl-esipp"


@pytest.mark.parametrize("workflow", [WORKFLOW, RELEASE, ACTION], ids=lambda path: path.name)
def test_actions_are_pinned_by_digest_with_their_version_beside(workflow: Path) -> None:
    used = re.findall(r"^ *(?:- )?uses: (\S+)(.*)", workflow.read_text(), re.MULTILINE)
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action} says not of which version"


def test_the_workflow_may_only_read_and_keeps_each_report() -> None:
    workflow = loaded(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["lane"]["steps"]
    (keeping,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert keeping["if"] == "always()"
    assert "runs/2*" in keeping["with"]["path"]


def test_the_page_of_lanes_names_every_key() -> None:
    page = (HOUSE / "ci" / "README.md").read_text()
    for key in {each.name for each in fields(lane_file.Lane)} - {"name"}:
        assert f"{key}:" in page or f"`{key}`" in page, key
