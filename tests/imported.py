"""What a process of tests/warm.py has imported and made already."""

import kubernetes.client
import pytest

import esipp.app.cli
import esipp.report.formats
import tests.warm
from esipp.checks.catalog import all_checks

USED = (kubernetes.client, pytest, esipp.app.cli, esipp.report.formats, tests.warm, len(all_checks()))
