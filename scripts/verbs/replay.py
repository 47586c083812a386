# SPDX-License-Identifier: Apache-2.0
"""`nf replay`: captured gradients through the design. The work is done by verif.replay."""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType

from scripts.errors import NfError


def _cli() -> ModuleType:
    try:
        return importlib.import_module("verif.replay.cli")
    except ModuleNotFoundError as error:
        raise NfError(f"replay is not available: {error}.") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _cli().add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return int(_cli().run(args))
