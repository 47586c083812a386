# SPDX-License-Identifier: Apache-2.0
"""slang as a linter: elaborates and analyses drivers (it finds a net that two processes drive)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from scripts.common.paths import ROOT
from scripts.build.filelist import FileList

# Warnings that are style here, with the reason.
_QUIET = (
    "-Wno-unused",  # Verilator's -Wall is the judge of unused nets, with reasoned waivers
    "-Wno-useless-cast",  # a cast that states a width stays right when a parameter changes
)


def analyse(top: str, parameters: Sequence[tuple[str, int]], files: FileList) -> list[str]:
    """Lines of every error and warning; empty when slang is content.

    slang prints to the process's own stderr, so it runs in a child.
    """
    words = ["slang", "--single-unit", "-DVERILATOR", "--timescale", "1ns/1ps", "--top", top]
    words += [f"-G{name}={value}" for name, value in parameters]
    words += [f"+incdir+{path}" for path in files.includes]
    words += [*_QUIET, "-Wextra", "-Wno-unused-result", *files.sources]
    done = subprocess.run(
        [sys.executable, "-m", "scripts.build.slang", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines if done.returncode else []


def main(words: Sequence[str]) -> int:
    """Run slang on command-line words; 1 when it reports anything."""
    import pyslang

    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    text = " ".join(f'"{word}"' for word in words)
    if not driver.parseCommandLine(text, pyslang.driver.CommandLineOptions()):
        return 1
    if not (driver.processOptions() and driver.parseAllSources()):
        driver.reportParseDiags()
        return 1
    compilation = driver.createCompilation()
    driver.reportCompilation(compilation, True)
    driver.runAnalysis(compilation)
    good = driver.reportDiagnostics(True)
    engine = driver.diagEngine
    return 0 if good and engine.numErrors == 0 and engine.numWarnings == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
