"""What a process of tests/warm.py has imported and made already: all of esipp, and what it makes once."""

import gc
import importlib
import pkgutil

import _pytest
import allure_commons
import execnet
import kubernetes.client
import kubernetes.config

import esipp
import tests.warm
from esipp.base.schema import adapter
from esipp.checks.catalog import all_checks
from esipp.ledger.records import KINDS

OWN_PLUGIN = "esipp.app.pytest_plugin"
"""pytest imports it itself, and warns of a plugin that it finds imported."""

NAMES = [each.name for of in (esipp, _pytest) for each in pkgutil.walk_packages(of.__path__, f"{of.__name__}.")]
MODULES = [importlib.import_module(name) for name in NAMES if name not in (OWN_PLUGIN, "esipp.__main__")]
USED = (allure_commons, execnet, kubernetes.client, kubernetes.config, tests.warm, len(all_checks()))
ADAPTERS = [adapter(kind) for kind in KINDS.values()]
gc.freeze()  # a forked process need not look through all of that for what is no longer used
