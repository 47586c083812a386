# SPDX-License-Identifier: Apache-2.0
"""The only place that runs git, always on one given checkout, whatever the environment.

A hook sets GIT_DIR and GIT_INDEX_FILE, a checkout may lie below a foreign repository or belong to
another user (a container that runs as root), and tracing writes to stderr: none of this may lead
git to another repository or hide its answer. The user's own settings (`~/.gitconfig`) stay: they
say how the files of the checkout are to be read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

CHANGED = ", changed"
"""Suffix of a commit if files of the checkout differ from it."""
_KEPT = frozenset(
    {"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}
)
_LIMIT_S = 60.0
_VERB = re.compile("[a-z][a-z-]+")


class GitError(NfError):
    """git is missing, refuses the checkout, or fails with an error; one line."""


def environment(root: Path) -> dict[str, str]:
    """Return the environment variables for git on the checkout ``root``.

    All GIT_* of this process are left out (also those that name a repository), except the four that
    name settings. git does not search for a repository above ``root`` and takes no lock on its
    index.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _KEPT}
    own = {"GIT_CEILING_DIRECTORIES": str(root.resolve().parent), "GIT_OPTIONAL_LOCKS": "0"}
    return {**kept, **own, "LC_ALL": "C"}


def text(*words: str, root: Path = ROOT) -> str:
    """Run a git command on a checkout and return its stdout.

    The checkout may belong to another user (git 2.38 and later take `safe.directory` from the
    command line).

    Args:
        words: Words after `git`.
        root: Top folder of the checkout.

    Raises:
        GitError: `root` is no checkout, or git is missing, fails or takes longer than 60 s.
    """
    shown = f"git {next(word for word in words if _VERB.fullmatch(word))}"
    if words[0] != "init" and not (root / ".git").exists():
        raise GitError(f"{shown}: {root} is not a git checkout.")
    command = ["git", "-C", str(root), "-c", f"safe.directory={root.resolve()}", *words]
    try:
        done = subprocess.run(
            command,
            env=environment(root),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"{shown}: no answer after {_LIMIT_S:.0f} s.") from None
    except OSError as error:
        raise GitError(f"{shown}: git does not start: {error.strerror}.") from error
    if done.returncode:
        raise GitError(f"{shown}: {_first_error(done.stderr) or f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="surrogateescape")


def _first_error(written: bytes) -> str:
    """Return the first line that starts with `fatal:` or `error:`, else the first line, else "".

    Hints and notes may be printed before the error.
    """
    lines = [line for line in written.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return next(iter([*errors, *lines]), "").strip()


def revision() -> str:
    """Return the commit of the checkout, with a mark if files differ from it; empty without git. A
    checkout that git refuses costs a line, not the command.
    """
    words = ("describe", "--always", "--abbrev=12", "--exclude=*", f"--dirty={CHANGED}")
    try:
        return text(*words).strip()
    except GitError as error:
        if (ROOT / ".git").exists():
            say(f"nf: the commit is not recorded: {error}", file=sys.stderr)
        return ""


def files(root: Path = ROOT) -> list[Path]:
    """Return the tracked files of a checkout that exist on disk, as paths below ``root``.

    Without a repository (an unpacked archive): every file that is neither hidden nor in a folder of
    build results.

    Raises:
        GitError: git refuses the checkout.
    """
    if (root / ".git").exists():
        listed = text("ls-files", "-z", root=root).split("\0")
        return [path for name in listed if name and (path := root / name).is_file()]
    found: list[Path] = []
    for place, folders, names in os.walk(root):
        built = {"__pycache__"}
        if "pyproject.toml" in names:
            built.add("build")  # scripts/build holds sources
        folders[:] = [n for n in folders if n not in built and not n.startswith(".")]
        found += [Path(place, name) for name in names if not name.startswith(".")]
    return found
