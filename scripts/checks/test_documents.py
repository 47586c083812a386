# SPDX-License-Identifier: Apache-2.0
"""Tests that names in documents exist: options of `attach`, command lines, names in the text."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.checks import tracked_files
from scripts.cli.main import VERBS, make_parser, verb_of
from scripts.common.paths import ROOT

DOCUMENTS = [
    *("README.md", "verif/README.md", "neuron_fabric/README.md", "docs/spec/runtime.md"),
    *("docs/gradient-compression.md", "docs/environment.md", "ci/README.md"),
    *("docs/daily-work.md", "docs/replay-and-training.md", "docs/measurements.md"),
]
ELSEWHERE = {"start_powerSGD_iter", "--max-restarts"}  # torch, torchrun
"""Names of other projects."""
CODE = (".py", ".sv", ".c", ".cpp", ".h", ".json", ".toml", ".yaml", ".yml", ".sh", ".css")


def test_every_option_of_attach_is_documented() -> None:
    """Check that the README's table lists exactly the options of `attach`."""
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    from neuron_fabric import attach

    text = (ROOT / "neuron_fabric" / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| option of `attach` |") :].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:]))
    options = set(inspect.signature(attach).parameters) - {"model", "profile", "env"}
    assert set(named) == options
    assert len(named) == len(options)


COMMAND = re.compile(r"((\.venv/bin/)?nf|python -m neuron_fabric) [a-z-]+( (?![a-z ]*: )|$)")


def lines_of(document: str) -> Iterator[str]:
    """Yield the command lines of `nf` and `python -m neuron_fabric` in a document's code blocks.

    A line that begins with a verb and a colon was printed.
    """
    text = (ROOT / document).read_text(encoding="utf-8")
    for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("$ ")
            if COMMAND.match(line):
                yield line


COMMANDS = [(document, line) for document in DOCUMENTS for line in lines_of(document)]


@pytest.mark.parametrize(("document", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_every_command_line_is_understood(document: str, line: str) -> None:
    words = shlex.split(re.sub(r" [&>|] ?.*| &$", "", line), comments=True)
    if words[0] == "python":  # verbs of the package are those of two groups
        groups = {name.split()[1]: name.split()[0] for name in VERBS if " " in name}
        words = ["nf", groups[words[3]], *words[3:]]
    words = words[1:]
    make_parser(verb_of(words)).parse_args(words)


def test_there_are_command_lines() -> None:
    assert len(COMMANDS) > 20


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Return every identifier, option and file name of the code."""
    found = {file.stem for file in tracked_files.files(ROOT)}
    for file in tracked_files.files(ROOT, *CODE):
        if file != Path(__file__):
            text = file.read_text(encoding="utf-8", errors="replace")
            found |= set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*|--[a-z][a-z-]*", text))
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_is_in_the_code(document: str, known: set[str]) -> None:
    """Check that identifiers with an underscore and options in backticks occur in the code."""
    text = (ROOT / document).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    names = [
        name
        for span in re.findall(r"`([^`\n]+)`", text)
        for name in re.findall(r"(?<![\w/.-])--[a-z][a-z-]*|[A-Za-z_]\w*_\w*", span)
    ]
    assert not {one for one in names if one not in known} - ELSEWHERE


@pytest.mark.parametrize("document", ["docs/spec/runtime.md", "neuron_fabric/README.md"])
def test_no_machine_without_a_test_is_promised(document: str) -> None:
    """Check that documents that promise something about GPUs say that no test here has one.

    A line may say that a GPU is refused, left out or used by others.
    """
    text = (ROOT / document).read_text(encoding="utf-8")
    said = [
        line
        for line in text.splitlines()
        if re.search(r"\b(GPUs?|CUDA|NCCL|DAX)\b", line)
        and not re.search(r"refused|needs no GPU|THC|BytePS|\| GPU \||left out", line)
    ]
    assert not said or re.search(r"not (yet )?run on (a GPU|one)", text)
