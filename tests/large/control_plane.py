"""A real control plane without nodes: etcd, API server, scheduler and the controllers that agents need, on loopback.

It is to run in a network namespace of its own (``demonstrate.py``), whose end is the end of all of it.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from esipp.base.errors import PreflightError
from esipp.cluster.client import Cluster, UnreachableError

ADDRESS, PORT, ETCD = "10.200.0.1", 6443, "http://127.0.0.1:2379"
"""The API server's address is none of 127.0.0.0/8, which it refuses to announce."""

START_SECONDS = 120.0
CONTROLLERS = "daemonset-controller,namespace-controller,serviceaccount-controller"

MEASURED, OTHERS = "measured", "others"
"""Two accounts: what is measured, and the simulation."""

AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, users: [measured]}
- {level: None}
"""

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://{address}:{port}", certificate-authority: "{ca}"}}}}]
users: [{{name: measured, user: {{token: measured}}}}, {{name: others, user: {{token: others}}}}]
contexts:
- {{name: measured, context: {{cluster: c, user: measured}}}}
- {{name: others, context: {{cluster: c, user: others}}}}
current-context: others
"""


def _until(what: str, done: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not start within {START_SECONDS:.0f} s")
        time.sleep(0.2)


class ControlPlane:
    """Its programs, by pid, and their files.

    Args:
        folder: for data, logs and credentials.
        programs: where ``etcd`` and the programs of Kubernetes are.
    """

    def __init__(self, folder: Path, programs: dict[str, Path]) -> None:
        self.folder, self._programs = folder, programs
        self.kubeconfig = folder / "kubeconfig"
        self.audit = folder / "audit.log"
        self._running: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[Cluster]:
        """While it runs; gives a cluster for the simulation's own requests."""
        try:
            self._write()
            self._start("etcd", "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync",
                        "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
                        "--listen-peer-urls", "http://127.0.0.1:2380")  # fmt: skip
            self._start_server()
            certificate = self.folder / "pki" / "apiserver.crt"
            _until("the API server", certificate.exists)
            cluster = Cluster(OTHERS, str(self.kubeconfig))
            _until("the API server", lambda: self._answers(cluster))
            common = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
            self._start("kube-controller-manager", *common, f"--controllers={CONTROLLERS}",
                        "--kube-api-qps=200", "--kube-api-burst=300")  # fmt: skip
            self._start("kube-scheduler", *common)
            yield cluster
        finally:
            for process in reversed(self._running):
                process.terminate()
            for process in self._running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                process.wait()

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tokens").write_text('measured,measured,1,"system:masters"\nothers,others,2,"system:masters"\n')
        (self.folder / "audit.yaml").write_text(AUDIT)
        key = ["openssl", "genrsa", "-out", str(self.folder / "accounts.key"), "2048"]
        subprocess.run(key, check=True, capture_output=True)
        ca = self.folder / "pki" / "apiserver.crt"
        self.kubeconfig.write_text(KUBECONFIG.format(address=ADDRESS, port=PORT, ca=ca))

    def _start_server(self) -> None:
        key = self.folder / "accounts.key"
        self._start(
            "kube-apiserver", f"--etcd-servers={ETCD}", f"--advertise-address={ADDRESS}", f"--secure-port={PORT}",
            f"--cert-dir={self.folder / 'pki'}", f"--token-auth-file={self.folder / 'tokens'}",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.201.0.0/24",
            "--service-account-issuer=https://large.invalid", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--allow-privileged=true",
            # nodes are ready by our word, and there is nobody who would take that taint away
            "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
            f"--audit-policy-file={self.folder / 'audit.yaml'}", f"--audit-log-path={self.audit}",
            "--audit-log-mode=blocking",
        )  # fmt: skip

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running.append(
                subprocess.Popen([self._programs[name], *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def _answers(self, cluster: Cluster) -> bool:
        try:
            cluster.version()
            return cluster.exists("/api/v1/namespaces/kube-system") and cluster.exists("/api/v1/namespaces/default")
        except (PreflightError, UnreachableError):
            return False
