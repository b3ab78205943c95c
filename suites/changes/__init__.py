"""Changes: Services and their pods change while clients of every kind send to them."""

from esipp.checks.versions import SCTP, Rules

TITLE = "Changes of Services and pods"
ORDER = 55

VERSIONS: Rules = (({"protocol": "SCTP"}, SCTP),)
