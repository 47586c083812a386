# SPDX-License-Identifier: Apache-2.0
"""Build backend of this folder: an editable install works, a wheel is refused.

A wheel would hold neither the RTL nor the captures, and its `nf` would find no tree to work on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "prepare_metadata_for_build_editable",
]
WHY = "neuron-fabric makes no package: clone the repository, `make setup`, use .venv/bin/nf there."


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> NoReturn:
    """Refuse in one line."""
    raise SystemExit(WHY)


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> NoReturn:
    """Refuse in one line."""
    raise SystemExit(WHY)
