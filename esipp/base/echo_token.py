"""The secret by which this process's echo servers know its probers: they answer nobody else."""

import secrets

VARIABLE = "ESIPP_TOKEN"
"""How an echo server gets it (images/echoserver/README.md)."""

TOKEN = secrets.token_hex(16)
"""New in every process, and so in every run. It is worth nothing once the run's pods are gone."""

ECHOED = ("tcp", "http", "udp", "sctp", "lasting")
"""The protocols of jobs that an echo server answers."""
