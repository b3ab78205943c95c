"""The shared secret of echo servers and probers. An echo server answers only requests with this secret."""

import secrets

VARIABLE = "ESIPP_TOKEN"
"""The environment variable that passes it to an echo server (images/echoserver/README.md)."""

TOKEN = secrets.token_hex(16)
"""The secret, new in every process and so in every run. It is worthless once the run's pods are gone."""

ECHOED = ("tcp", "http", "udp", "sctp", "lasting", "bulk")
"""The job protocols that an echo server answers."""
