# SPDX-License-Identifier: Apache-2.0
"""Interleaving fuzzer: several `nf` commands at once in one tree must succeed or refuse in a line.

A case draws two to four commands, when each starts, and now and then a signal that ends one of
them. All cases share one build folder, in which every command was first run alone. After each case:
no traceback, no process left, each result file holds the tensors of exactly one replay that asked
for it, and the history can be read.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from neuron_fabric.capture.safetensors_io import open_tensors
from neuron_fabric.errors import CaptureError, say
from neuron_fabric.printable import one_line
from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown
from scripts.fuzz.fuzz_case import MARK, NEVER, launch, strays

CAPTURE = "captures/digits-resnet-8x"
LIMIT_S = 300.0
_GONE_S = 5.0
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_ENDED_SHARE = 0.2


class Kind(NamedTuple):
    """A kind of command in interleavings.

    Attributes:
        name: Name to print.
        words: Command line after `nf`.
        says: Text that its output contains on exit code 0.
        weight: Relative frequency.
        variant: Name of the tensors that its result file holds; "": it writes none.
        cleans: Whether it may remove the builds of other commands while none is active, so that
            they take longer later on.
    """

    name: str
    words: tuple[str, ...]
    says: str = ""
    weight: int = 2
    variant: str = ""
    cleans: bool = False


def _replay(variant: str, transport: str, sim: str, *words: str) -> Kind:
    line = ("replay", CAPTURE, "--steps", "3", "--transport", transport, "--sim", sim, *words)
    return Kind(f"replay {transport} {sim} {variant}", line, "0 mismatches", 3, variant)


_FIRST, _QUICK = registry.names()[0], registry.quick().name
KINDS: tuple[Kind, ...] = (
    _replay("plus", "bulk", _FIRST, "--route", "*=G_BINARY"),
    _replay("minus", "bulk", _FIRST, "--route", "*=G_BINARY", "--tie", "minus"),
    _replay("ternary", "bulk", _FIRST, "--route", "*=G_TERNARY"),
    _replay("plus", "bulk", _QUICK, "--route", "*=G_BINARY"),
    _replay("plus", "signal", _FIRST, "--route", "*=G_BINARY"),
    Kind(f"run {_FIRST}", ("run", "test_modes::g_binary", "--sim", _FIRST), "0 failed"),
    Kind(f"run {_QUICK}", ("run", "test_modes::g_binary", "--sim", _QUICK), "0 failed"),
    Kind("run seeds", ("run", "test_modes::*", "--sim", _FIRST, "--seeds", "2"), "0 failed"),
    Kind("mutate", ("mutate", "wrong-tie"), "1 of 1 runs caught their mutant"),
    Kind("mutate other", ("mutate", "threshold-strict"), "1 of 1 runs caught their mutant"),
    Kind("report", ("report",), "report"),
    Kind("history", ("history",)),
    Kind("clean", ("clean", "--days", "1"), "removed"),
    Kind("clean all", ("clean", "--all"), "removed", 1, cleans=True),
    Kind("capture check", ("capture", "check", CAPTURE)),
)
if importlib.util.find_spec("torch"):
    # Makes a folder below the tree's build folder; two at once choose different ones.
    training = ("capture", "--workers", "2", "--steps", "1", "train")
    KINDS += (Kind("capture training", training, "replay it with"),)


@dataclass
class ConcurrentCommand:
    """One command of a case: its kind, start time, result file and result.

    `ended` is (seconds, signal) that ends it; None for none. `text` is its output.
    """

    kind: Kind
    start_s: float = 0.0
    out: Path | None = None
    ended: tuple[float, signal.Signals] | None = None
    code: int | None = None  # None: it hung, and was killed
    text: str = ""

    def __str__(self) -> str:
        end = f", {self.ended[1].name} after {self.ended[0]:.1f} s" if self.ended else ""
        where = f" --out {self.out.name}" if self.out else ""
        return f"{self.kind.name}{where} at {self.start_s:.1f} s{end}: exit {self.code}"


def draw(number: int, seed: int, folder: Path) -> list[ConcurrentCommand]:
    """Return the randomly chosen commands of a case; half of the cases start two of one kind."""
    random = Random(f"{seed} {number}")
    drawn = random.choices(KINDS, [kind.weight for kind in KINDS], k=random.choice((2, 2, 3, 4)))
    if random.random() < 0.5:
        drawn[-1] = drawn[0]
    commands = []
    for kind in drawn:
        out = folder / f"out{random.randrange(2)}.safetensors" if kind.variant else None
        ended = None
        if random.random() < _ENDED_SHARE:
            ended = (random.uniform(0.2, 4.0), random.choice(_ENDINGS))
        start_s = random.choice((0.0, 0.0, random.uniform(0, 2)))
        commands.append(ConcurrentCommand(kind, start_s, out, ended))
    return commands


class Tree:
    """The build folder that all cases share, and the tensors that each variant returns alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.alone: dict[str, dict[str, bytes]] = {}
        self._token = uuid.uuid4().hex
        self._env = {**os.environ, "NF_BUILD": str(folder / "build"), MARK: self._token}

    def warm_up(self) -> None:
        """Run every kind of command once, alone, so that builds exist and each result is known.

        Raises:
            NfError: A command fails or returns wrong tensors even so.
        """
        for kind in (one for one in KINDS if not one.cleans):
            out = self.folder / "alone.safetensors" if kind.variant else None
            command, start = ConcurrentCommand(kind, out=out), time.monotonic()
            self.run([command], self.folder)
            wrong = self.wrong_end(command) or ("" if command.code == 0 else "refuses")
            if wrong:
                raise NfError(f"{kind.name}, alone, {wrong}: {one_line(command.text, 600)}")
            if out is not None:
                tensors = tensors_of(out)
                if self.alone.setdefault(kind.variant, tensors) != tensors:
                    raise NfError(f"{kind.name}, alone, gives other tensors than its variant.")
                out.unlink()
            say(f"alone: {kind.name}, {time.monotonic() - start:.1f} s", flush=True)

    def case(self, number: int, seed: int) -> tuple[list[ConcurrentCommand], list[str]]:
        """Run a case; return its commands, and an error text for each fault."""
        folder = self.folder / f"case-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        commands = draw(number, seed, folder)
        self.run(commands, folder)
        wrong = [f"{one.kind.name}: {text}" for one in commands if (text := self.wrong_end(one))]
        wrong += self.wrong_files(commands)
        wrong += [f"left behind: {text}" for text in strays(self._token, _GONE_S)]
        look = ConcurrentCommand(Kind("history", ("history",)))
        self.run([look], folder)
        if look.code != 0 and not any(command.kind.cleans for command in commands):
            wrong.append(f"the history cannot be read: {one_line(look.text)}")
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
        return commands, wrong

    def run(self, commands: Sequence[ConcurrentCommand], folder: Path) -> None:
        """Run commands at once: start each at its time, send the drawn signals, wait for all.

        Exit codes and outputs are stored in the commands.
        """

        def one(place: int, command: ConcurrentCommand) -> None:
            time.sleep(command.start_s)
            words = [*command.kind.words, *(("--out", str(command.out)) if command.out else ())]
            path = folder / f"{place}-{command.kind.name.replace(' ', '-')}.log"
            with path.open("wb") as log:
                how = {"cwd": ROOT, "env": self._env, "stdout": log, "stderr": subprocess.STDOUT}
                command.code = launch(words, LIMIT_S, command.ended, **how)
            command.text = path.read_text(encoding="utf-8", errors="replace")

        with ThreadPoolExecutor(len(commands)) as pool:
            list(pool.map(one, range(len(commands)), commands))

    @staticmethod
    def wrong_end(command: ConcurrentCommand) -> str:
        """Return the fault in the end of a command as text, or ""."""
        text = command.text
        if command.code is None:
            return f"still at work after {LIMIT_S:.0f} s"
        if found := NEVER.search(text):
            return f"prints {found[0].strip()!r}"
        if command.code == 0:
            return "" if command.kind.says in text else f"exit 0 without {command.kind.says!r}"
        if command.ended is not None:
            return ""
        if command.code != 2:
            return f"exit code {command.code}"
        refused = any(line.startswith("nf") for line in text.splitlines())
        return "" if refused else "refuses without a line"

    def wrong_files(self, commands: Sequence[ConcurrentCommand]) -> Iterator[str]:
        """Yield an error text for each fault in the result files of a case."""
        for out in sorted({command.out for command in commands if command.out}):
            users = [command for command in commands if command.out == out]
            right = [command for command in users if command.code == 0]
            if not out.exists():
                if right:
                    yield f"{out.name} is missing after exit code 0"
                continue
            try:
                tensors = tensors_of(out)
            except CaptureError as error:
                yield f"{out.name} cannot be read: {error}"
                continue
            if out.is_symlink() or tensors not in [
                self.alone[command.kind.variant] for command in right or users
            ]:
                yield f"{out.name} holds the tensors of no replay that ended right"


def tensors_of(path: Path) -> dict[str, bytes]:
    """Return the bytes of each tensor of a result file, without metadata, since cycles differ.

    Raises:
        CaptureError: The file is damaged.
    """
    file = open_tensors(path)
    return {name: file.read(name).tobytes() for name in file.tensors}


def campaign(number: int, seed: int, folder: Path) -> int:
    """Run ``number`` interleavings and print their results; return 1 if one failed, else 0."""
    start = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    tree, red, codes = Tree(folder), list[int](), Counter[str]()
    tree.warm_up()
    for one in range(number):
        begin = time.monotonic()
        commands, wrong = tree.case(one, seed)
        for command in commands:
            codes["right" if command.code == 0 else "ended" if command.ended else "refused"] += 1
        word, what = "FAIL" if wrong else "ok", "; ".join(map(str, commands))
        took = time.monotonic() - begin
        lines = [f"     {text}" for text in wrong]
        say(f"{word:4} case {one}: {what}, {took:.1f} s", *lines, flush=True)
        red += [one] if wrong else []
    if red:
        say(f"folders of the failed cases: {shown(folder)}, {', '.join(map(str, red))}")
    say(
        f"nf fuzz: {number - len(red)} interleavings passed, {len(red)} failed; "
        f"{codes['right']} commands ended right, {codes['refused']} refused, "
        f"{codes['ended']} were ended; {time.monotonic() - start:.1f} s"
    )
    return 1 if red else 0
