"""What the command line has for pods: ``--in-cluster``, and ``esipp fetch``, which brings a Job's report."""

import argparse
from pathlib import Path
from typing import Any

from esipp.app.report import summarise_run

NAMESPACE, JOB = "esipp-account", "esipp"
"""Those of deploy/job.yaml."""

EXIT_CODES = """exit codes are those of the run:
  0  conformant: every core check that was asked holds (the last line says PARTIAL if core checks were left out)
  1  not conformant: a core check fails, or a check is flaky
  2  the run was interrupted, or fetching was
  3  the harness failed, a core check could not be decided; or the report could not be fetched, or is gone
  4  wrong usage, no such Job, or it is still running; or the cluster was not fit to be asked
  5  no check was selected
"""


def add_in_cluster(add: Any) -> None:
    """``--in-cluster``, in place of ``--context``."""
    add(
        "--in-cluster",
        action="store_true",
        help="in place of --context, in a pod: the cluster that it runs in, as the pod's service account",
    )


def add_fetch(commands: Any) -> None:
    """``esipp fetch``."""
    fetching = commands.add_parser(
        "fetch",
        help="the report of a run inside a cluster (deploy/job.yaml), with its exit code",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fetching.add_argument("--context", required=True, metavar="NAME", help="kubeconfig context of the cluster")
    fetching.add_argument("--kubeconfig", default=None, metavar="FILE")
    fetching.add_argument("--namespace", default=NAMESPACE, metavar="NAME", help="of the Job (default: %(default)s)")
    fetching.add_argument("--job", default=JOB, metavar="NAME", help="the Job (default: %(default)s)")
    fetching.add_argument("--out", type=Path, default=None, metavar="DIR", help="where to (default: runs/<its name>)")
    fetching.add_argument(
        "--wait", type=int, default=0, metavar="SECONDS", help="wait so long for its end (default: not at all)"
    )
    fetching.set_defaults(command=_fetch)


def _fetch(options: argparse.Namespace) -> int:
    from esipp.app.in_cluster.fetch import bring
    from esipp.cluster.client import Cluster

    cluster = Cluster(options.context, options.kubeconfig)
    cluster.version()  # whether it answers, told as everywhere
    folder = bring(cluster, options.namespace, options.job, options.wait, options.out)
    print(folder, flush=True)
    return summarise_run(argparse.Namespace(run=folder))
