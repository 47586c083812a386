# SPDX-License-Identifier: Apache-2.0
"""Named steps, run one after the other: quiet when they pass, their output when they fail."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from neuron_fabric.text import say
from scripts.common import warden
from scripts.common.paths import ROOT

# A step returns the lines to show; an empty list is a pass.
Action = Callable[[], list[str]]


@dataclass
class Steps:
    """Runs steps and keeps the score."""

    title: str
    failed: list[str] = field(default_factory=list)
    count: int = 0

    def run(self, name: str, action: Action) -> None:
        """Run one step and print its line."""
        start = time.monotonic()
        lines = action()
        self.count += 1
        word = "FAIL" if lines else "ok"
        say(f"{word:4} {name} ({time.monotonic() - start:.1f} s)", flush=True)
        for line in lines:
            say(f"     {line}", flush=True)
        if lines:
            self.failed.append(name)

    def close(self) -> int:
        """Print the result; the exit code of the verb."""
        result = f"failed: {', '.join(self.failed)}" if self.failed else "clean"
        say(f"{self.title}: {self.count} checks, {result}")
        return 1 if self.failed else 0


def command(words: Sequence[str], env: dict[str, str] | None = None, keep: int = 40) -> list[str]:
    """Run a command from the root; nothing when it exits 0, else the last `keep` lines it wrote."""
    try:
        with subprocess.Popen(
            list(words),
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            warden.watch(process.pid, group=False)
            text, _ = process.communicate()
            warden.forget(process.pid)
    except OSError as error:
        return [f"{words[0]}: {error.strerror}"]
    if process.returncode == 0:
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-keep:] or [f"{words[0]} ended with exit code {process.returncode}"]
