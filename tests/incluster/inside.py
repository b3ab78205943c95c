"""A cluster in which esipp is run: what is applied, asked and removed, by kubectl with the rights of who made it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from esipp.app.in_cluster.command import JOB, NAMESPACE
from esipp.app.in_cluster.state import RUNNER
from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL
from esipp.checks.catalog import HOUSE

SECONDS = 300
PLUGIN = "sonobuoy-stand-in"


@dataclass(frozen=True)
class Inside:
    """The cluster of a context, and the images of the suite and of the echo server as its nodes know them."""

    context: str
    suite: str
    echo: str

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl says."""
        command = ["kubectl", "--context", self.context, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def apply(self, manifest: Json) -> None:
        """Make an object."""
        self.kubectl("apply", "--filename", "-", stdin=json.dumps(manifest))

    def rendered(self) -> list[Json]:
        """What ``kubectl kustomize`` makes of the checkout: the account, and the Job."""
        return [each for each in yaml.safe_load_all(self.kubectl("kustomize", str(HOUSE))) if each]

    def apply_account(self) -> None:
        """Give the cluster the account, as the kind lanes do."""
        account = [each for each in self.rendered() if each["kind"] != "Job"]
        self.kubectl("apply", "--server-side", "--filename", "-", stdin=yaml.safe_dump_all(account))

    def container(self, container: Json, *options: str, before: tuple[str, ...] = ()) -> None:
        """Put our images and the options of a run into a container of deploy/."""
        container["image"] = self.suite
        container["args"] = [*before, *options]
        container["env"] = [{"name": "ESIPP_IMAGE", "value": self.echo}]

    def start_job(self, *options: str) -> None:
        """Apply the Job with our images and these options of a run."""
        (job,) = [each for each in self.rendered() if each["kind"] == "Job"]
        (runner,) = job["spec"]["template"]["spec"]["initContainers"]
        (keeper,) = job["spec"]["template"]["spec"]["containers"]
        self.container(runner, *options, before=("--",))
        keeper |= {"image": self.suite, "args": ["--linger", "1200"]}
        self.apply(job)

    def start_plugin(self, *options: str) -> None:
        """Make the pod that Sonobuoy makes of its plugin; in place of its worker one that only waits."""
        plugin: Json = yaml.safe_load((HOUSE / "deploy" / "sonobuoy-plugin.yaml").read_text())
        self.container(plugin["spec"], *options)
        worker = {
            "name": "worker",
            "image": self.suite,
            "command": ["sleep", "1800"],
            "volumeMounts": [{"name": "results", "mountPath": "/tmp/sonobuoy/results"}],  # noqa: S108 - Sonobuoy's
        }
        plugin["spec"]["env"].append({"name": "SONOBUOY_RESULTS_DIR", "value": "/tmp/sonobuoy/results"})  # noqa: S108 - Sonobuoy's
        volumes = [{"name": "results", "emptyDir": {}}, *plugin["extra-volumes"]]
        spec = {"serviceAccountName": JOB, "automountServiceAccountToken": True, "restartPolicy": "Never"}
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": PLUGIN, "namespace": NAMESPACE},
                "spec": {**spec, "containers": [plugin["spec"], worker], "volumes": volumes},
            }
        )

    def fetch(self, out: Path, *options: str, wait: int = 0) -> subprocess.CompletedProcess[str]:
        """``esipp fetch``."""
        command = [sys.executable, "-m", "esipp", "fetch", "--context", self.context, "--out", str(out)]
        command += ["--wait", str(wait), *options]
        return subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=wait + SECONDS, check=False)

    def wait(self, thing: str, condition: str, seconds: int = SECONDS) -> None:
        """Wait for something of the Job's namespace."""
        self.kubectl("wait", thing, f"--for={condition}", "--namespace", NAMESPACE, f"--timeout={seconds}s")

    def pod(self) -> str:
        """The Job's pod."""
        found = ("get", "pods", "--namespace", NAMESPACE, f"--selector=job-name={JOB}", "--output=name")
        return self.kubectl(*found).strip().removeprefix("pod/")

    def says(self, word: str) -> bool:
        """Whether the Job says a word, now or later, before its log ends."""
        command = ["kubectl", "--context", self.context, "logs", "--follow", f"job/{JOB}"]
        command += ["--container", RUNNER, "--namespace", NAMESPACE]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            try:
                assert following.stdout is not None
                return any(word in line for line in following.stdout)
            finally:
                following.kill()

    def namespaces(self) -> list[str]:
        """The namespaces of runs."""
        return self.kubectl("get", "namespaces", "--selector", RUN_LABEL, "--output", "name").split()

    def clean(self) -> None:
        """Remove what a test made, and what its run left."""
        gone = ("--namespace", NAMESPACE, "--ignore-not-found", "--wait=true")
        self.kubectl("delete", "job", JOB, "--cascade=foreground", *gone)
        self.kubectl("delete", "pod", PLUGIN, *gone)
        subprocess.run([sys.executable, "-m", "esipp", "clean", "--context", self.context], cwd=HOUSE, check=True)
