"""Command line options for runs in pods: ``--in-cluster``, and ``esipp fetch``, which fetches the report of a Job."""

import argparse
from pathlib import Path
from typing import Any

from esipp.app.report import summarise
from esipp.app.requests import KUBECONFIG_HELP, add_requests

NAMESPACE, JOB = "esipp-account", "esipp"
"""The names in deploy/job.yaml."""

EXIT_CODES = """exit codes (those of the run):
  0  conformant, possibly with differences that the API allows; or PARTIAL, because core checks were left out; or
     with known defects or failures that the run accepted: the last lines say which
  1  not conformant: a check fails or is flaky, or a core check has a known defect or finding; or a waiver is stale
  2  the run or this command was interrupted
  3  the harness failed, or too many checks could not be decided; or the report is gone or could not be fetched
  4  wrong usage; or the Job does not exist or is still running; or the cluster was not fit for a run
  5  no check was selected
"""


def add_in_cluster(add: Any) -> None:
    """Add ``--in-cluster``, which replaces ``--context``."""
    add(
        "--in-cluster",
        action="store_true",
        help="in a pod: use the cluster that the pod runs in, as the pod's service account; replaces --context",
    )


def add_fetch(commands: Any) -> None:
    """Add ``esipp fetch`` to the parser."""
    fetching = commands.add_parser(
        "fetch",
        help="fetch the report of a run inside a cluster (deploy/job.yaml), and exit with the run's exit code",
        epilog=EXIT_CODES,
    )
    fetching.add_argument("--context", required=True, metavar="NAME", help="kubeconfig context of the cluster")
    fetching.add_argument("--kubeconfig", default=None, metavar="FILE", help=KUBECONFIG_HELP)
    add_requests(fetching.add_argument)
    fetching.add_argument(
        *("-n", "--namespace"), default=NAMESPACE, metavar="NAME", help="namespace of the Job (default: %(default)s)"
    )
    fetching.add_argument("--job", default=JOB, metavar="NAME", help="name of the Job (default: %(default)s)")
    fetching.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="folder for the report (default: runs/<name of the run>)"
    )
    fetching.add_argument(
        "--wait",
        type=int,
        default=0,
        metavar="SECONDS",
        help="how long to wait until the run ends (default: do not wait)",
    )
    fetching.set_defaults(command=_fetch)


def _fetch(options: argparse.Namespace) -> int:
    from esipp.app.in_cluster.fetch import bring
    from esipp.cluster.client import Cluster

    cluster = Cluster(
        options.context, options.kubeconfig, as_user=options.as_user, request_timeout=options.request_timeout
    )
    cluster.version()  # fails with the usual error if the API server does not answer
    folder = bring(cluster, options.namespace, options.job, options.wait, options.out)
    print(folder, flush=True)
    return summarise(folder)
