# SPDX-License-Identifier: Apache-2.0
"""SMT-LIB models of wrapper modules, made by yosys, with the list of their properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.build import sources, yosys
from scripts.build.filelist import read_filelist, read_source
from scripts.common.budget import Budget, UsedUp
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import ROOT, shown
from scripts.prove.proof import BITWUZLA, Proof

_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_WORD = re.compile(r"\b(?:[nf][fv]_\w+|CCU2C)\b")
_PROPERTY = re.compile(r"^; yosys-smt2-(assert|assume|cover) \d+ (\S+)(?: (\S+))?", re.MULTILINE)


@dataclass(frozen=True)
class Model:
    """Model of a wrapper module for an SMT solver.

    Attributes:
        path: SMT-LIB file.
        top: Wrapper module.
        asserts: Names of its assertions.
        covers: Names of its cover statements.
        state: Whether it has registers.
    """

    path: Path
    top: str
    asserts: tuple[str, ...]
    covers: tuple[str, ...]
    state: bool


def template(name: str, **values: str) -> str:
    """Return the text of a file in this folder with the names in braces replaced by ``values``."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").format(**values)


def run_script(
    proof: Proof, folder: Path, commands: str, budget: Budget, reading: str = ""
) -> None:
    """Run yosys: read the design of a proof with its edits, then execute commands.

    Args:
        proof: Proof whose design is read.
        folder: Folder for files.
        commands: Lines of yosys commands after reading.
        budget: Processor time.
        reading: Further options of `read_slang`.

    Raises:
        BuildError: yosys failed; the text is its message.
        UsedUp: The budget is used up.
    """
    if not folder.is_relative_to(ROOT):
        raise NfError("yosys (WebAssembly) sees this repository alone: unset NF_BUILD.")
    files = read_filelist(ROOT, proof.spec.build.filelist)
    changed = sources.texts_of(proof.spec.build, files)
    names = needed(proof.top, {name: changed[name] for name in files.sources})
    for number, name in enumerate(names):
        if changed[name] != read_source(ROOT / name, name):
            path = folder / "edited" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(changed[name], encoding="utf-8")
            names[number] = shown(path)
    words = ["read_slang", "-j", "1", "--top", proof.top, "--single-unit", reading]
    words += [f"-D{name}={value}" for name, value in proof.spec.build.defines]
    words += [f"-G {name}={value}" for name, value in proof.parameters]
    words += [f"-I {path}" for path in files.includes] + names
    script, log = folder / "model.ys", folder / "yosys.log"
    script.write_text(" ".join(words) + "\n" + commands, encoding="utf-8")
    words = [yosys.program(), "-q", "-l", shown(log), "-s", shown(script)]
    done = budget.run(words, folder / "console.log")
    if done.timed_out:
        raise UsedUp(f"unknown: yosys came to no end in {budget.limit_s:g} s of processor time")
    if done.returncode != 0:
        raise BuildError(yosys.first_error(log, folder / "console.log"))


def needed(top: str, texts: Mapping[str, str]) -> list[str]:
    """Return the files that a module needs, in compile order.

    slang also elaborates unused files, in which edits may not apply. A file is named after its
    module or package.

    Args:
        top: The module.
        texts: Text of each source by file.
    """
    by_name = {Path(name).stem: name for name in texts}
    found, waiting = set[str](), [top]
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in found:
            found.add(name)
            waiting += _WORD.findall(_TEXT.sub(" ", texts[by_name[name]]))
    return [name for name in texts if Path(name).stem in found]


def make(proof: Proof, folder: Path, budget: Budget) -> Model:
    """Build the SMT-LIB model of a proof's wrapper.

    Raises:
        BuildError: yosys fails, or the wrapper has no assertion or no cover statement.
    """
    path = folder / "model.smt2"
    # With the state as one vector bitwuzla need not learn about an uninterpreted sort.
    sort = "-stbv " if proof.solver == BITWUZLA else ""
    commands = template("model.ys", top=proof.top) + f"write_smt2 {sort}-wires {shown(path)}\n"
    run_script(proof, folder, commands, budget)
    found: dict[str, list[str]] = {"assert": [], "assume": [], "cover": []}
    text = path.read_text(encoding="utf-8")
    for kind, first, second in _PROPERTY.findall(text):
        found[kind].append(second or first)
    if not found["assert"] or not found["cover"]:
        raise BuildError(f"{proof.top} has no assertion, or no cover statement")
    state = "; yosys-smt2-register" in text
    return Model(path, proof.top, tuple(found["assert"]), tuple(found["cover"]), state)
