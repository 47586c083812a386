# SPDX-License-Identifier: Apache-2.0
"""Facts about one command for its reports: time, machine, commit and tools."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.build import registry
from scripts.common import git, secret_values, tool_versions
from scripts.common.records import RunRecord

_PACKAGES = ("cocotb", "pyuvm", "numpy")


@dataclass(frozen=True)
class Invocation:
    """Command; `started` is ISO 8601 with the zone; `seconds` wall-clock time; `expected` runs
    wanted.

    For an earlier command `host` and `tools` may be unknown and empty.
    """

    title: str
    command: str
    started: str
    seconds: float
    expected: int
    host: str
    revision: str
    tools: tuple[tuple[str, str], ...]
    seeds: tuple[int, ...]


def describe(
    title: str, records: Sequence[RunRecord], seconds: float, expected: int | None = None
) -> Invocation:
    """Describe the command that ends now on this machine; it started `seconds` ago."""
    return Invocation(
        title=title,
        command=secret_values.command(),
        started=moment(time.time() - seconds),
        seconds=round(seconds, 3),
        expected=max(1, len(records)) if expected is None else expected,
        host=f"{platform.node()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        revision=git.revision(),
        tools=tools(),
        seeds=tuple(sorted({record.seed for record in records})),
    )


def moment(seconds: float) -> str:
    """Convert seconds since 1970 (time.time()) to ISO 8601 with the zone of this machine."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
    return when.isoformat(timespec="seconds")


def tools() -> tuple[tuple[str, str], ...]:
    """Return (tool, version) of the tools that a result depends on."""
    found = [("python", platform.python_version())]
    found += [(name, tool_versions.package_version(name) or "") for name in _PACKAGES]
    found += [(simulator.name, simulator.version()) for simulator in registry.simulators()]
    return tuple((name, version) for name, version in found if version)
