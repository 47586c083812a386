# SPDX-License-Identifier: Apache-2.0
"""Lock files of the Python requirements, which `python -m scripts.checks.requirements` writes.

uv resolves them. `requirements.txt` lists the packages that the project uses, each pinned and with
its reason. The lock file adds the packages that those require, and the SHA-256 of every file of
each. Set-up installs the lock file alone (`--require-hashes --no-deps`). The checks need no
network.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.common import process
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
LISTS = {
    "requirements.txt": "requirements.lock",
    "requirements-cluster.txt": "requirements-cluster.lock",
    "requirements-docs.txt": "requirements-docs.lock",
    "requirements-torch.txt": "requirements-torch.lock",
    "requirements-frameworks.txt": "requirements-frameworks.lock",
    "requirements-release.txt": "requirements-release.lock",
}

_PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!-]+)\s*(?:;\s*(?P<marker>[^\\#]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
_NOT_IMPORTED = "not imported: "
_IMPORT = re.compile(r"^\s*(?:import|from) ([\w.]+)", re.MULTILINE)
_OWN = "cocotbext.cxl"  # the rest of cocotbext is installed


@dataclass
class Pin:
    """A package pinned to a version: a line of a list or of a lock file.

    Attributes:
        name: Name of the package.
        version: Version.
        marker: Environment marker (PEP 508); "" for none.
        why: Comment of the line.
        hashes: SHA-256 of its files, in a lock file.
    """

    name: str
    version: str
    marker: str = ""
    why: str = ""
    hashes: set[str] = field(default_factory=set)

    def applies(self, python: str, machine: str) -> bool:
        """Return whether the marker holds for a Python version (3.11) and a machine (x86_64)."""
        where = {"python_version": python, "platform_machine": machine}
        return not self.marker or Marker(self.marker).evaluate(where)

    @property
    def key(self) -> str:
        """Normalized name of the package, as package indexes compare it."""
        return str(canonicalize_name(self.name))


def read(path: Path) -> tuple[dict[str, Pin], list[str]]:
    """Read a list or a lock file.

    Returns:
        The pins by normalized name, and the lines that are options of pip.

    Raises:
        NfError: A line is neither.
    """
    pins: dict[str, Pin] = {}
    options: list[str] = []
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for whole in text.splitlines():
        line, why = (part.strip() for part in whole.partition(" #")[::2])
        if line.startswith("--"):
            options.append(line)
        elif line and not line.startswith("#"):
            found = _PIN.match(line)
            if found is None:
                raise NfError(f"{path.name}: `{line[:80]}` is no pin (NAME==VERSION).")
            marker = (found["marker"] or "").partition("--hash")[0].strip()
            hashes = set(_HASH.findall(line))
            pin = Pin(found["name"], found["version"], marker, why, hashes)
            pins[pin.key] = pin
    return pins, options


def problems(root: Path = ROOT) -> list[str]:
    """Return an error line for each difference between a list and its lock file."""
    out: list[str] = []
    versions: dict[str, str] = {}
    for name, lock in LISTS.items():
        if not (root / lock).is_file():
            out.append(f"{lock} is missing")
            continue
        wanted, locked = read(root / name)[0], read(root / lock)[0]
        text = (root / lock).read_text(encoding="utf-8")
        asked = {str(canonicalize_name(one)) for one in _asked(text, name)}
        for key in sorted(wanted.keys() | asked):
            here, there = (
                f"{pin.version} {pin.marker}".strip() if pin else "nothing"
                for pin in (wanted.get(key), locked.get(key))
            )
            if here != there:
                out.append(f"{name} has {key} {here}, {lock} has {there}")
        for key, pin in locked.items():
            if not pin.hashes:
                out.append(f"{lock} has no hash of {key}")
            elif not pin.marker and versions.setdefault(key, pin.version) != pin.version:
                out.append(f"{lock} has {key} {pin.version}, another lock file {versions[key]}")
    return [f"{line}: run `python -m scripts.checks.requirements`" for line in out]


def _asked(text: str, name: str) -> set[str]:
    """Return the packages in the text of a lock file that the list `name` itself requires."""
    found, current = set(), ""
    for line in text.splitlines():
        if pin := _PIN.match(line):
            current = pin["name"]
        if f"-r {name}" in line.split("#")[-1]:
            found.add(current)
    return found


def unused(root: Path, files: Iterable[Path]) -> list[str]:
    """Return an error line for each pin whose comment contradicts the imports of `files`.

    A pin that no file imports needs a comment that begins with ``not imported:``; a pin that is
    imported must not have one. Pins of optional lists that are not installed are skipped.
    """
    out: list[str] = []
    imported = {
        canonicalize_name(distribution)
        for module in {module for path in files for module in _imports(path)}
        for distribution in _DISTRIBUTIONS.get(module, ())
    }
    for name in LISTS:
        for key, pin in read(root / name)[0].items():
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                importlib.metadata.version(key)  # an optional list may not be installed
                excused = pin.why.startswith(_NOT_IMPORTED)
                if key in imported and excused:
                    out.append(f"{name}: {key} is imported: its line says `{_NOT_IMPORTED}`")
                elif key not in imported and not excused:
                    out.append(
                        f"{name}: nothing imports {key}: remove it, or write `{_NOT_IMPORTED}` and "
                        "the reason"
                    )
    return out


_DISTRIBUTIONS = importlib.metadata.packages_distributions()


def _imports(path: Path) -> set[str]:
    """Return the top-level names of the modules that a source imports."""
    found = _IMPORT.findall(path.read_text(encoding="utf-8"))
    return {name.partition(".")[0] for name in found if not name.startswith(_OWN)}


def names(
    requirements: Iterable[str], extra: str = "", pythons: Iterable[str] = PYTHONS
) -> set[str]:
    """Return the names of packages that requirements need with an extra, on any of these Pythons.

    Args:
        requirements: Requirement texts (PEP 508).
        extra: Name of the extra; "" for none.
        pythons: Versions of Python.
    """
    places = [
        {"python_version": python, "python_full_version": f"{python}.0", "extra": extra}
        for python in pythons
    ]
    return {
        str(canonicalize_name(one.name))
        for one in map(Requirement, requirements)
        if one.marker is None or any(one.marker.evaluate(place) for place in places)
    }


def has(name: str, root: Path = ROOT) -> bool:
    """Return whether a lock file pins this package for this Python and machine."""
    python, machine = "{}.{}".format(*sys.version_info), platform.machine()
    locked = [read(root / lock)[0].get(name) for lock in LISTS.values()]
    return any(pin.applies(python, machine) for pin in locked if pin is not None)


def main(words: Sequence[str] = ()) -> int:
    """Write every lock file with uv, which needs the package indexes; return the exit code 0.

    With `--has NAME` only report by exit code 0 or 1 whether the package is pinned.
    """
    if len(words) == 2 and words[0] == "--has":
        return 0 if has(words[1]) else 1
    if words:
        raise NfError("no arguments, or --has NAME")
    earlier: list[str] = []  # lists agree on a version: each is a constraint of the next
    for name, lock in LISTS.items():
        wanted, options = read(ROOT / name)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder, lock)
            command = [sys.executable, "-m", "uv", "pip", "compile", name, "--quiet", "--universal"]
            command += ["--python-version", PYTHONS[0], "--generate-hashes", "--no-header"]
            command += ["--output-file", str(made), "--index-strategy", "unsafe-best-match"]
            command += [word for other in earlier for word in ("--constraint", other)]
            done = process.captured(command)
            if done.returncode:
                raise NfError(f"uv: {done.stderr.strip()[-600:]}")
            text = made.read_text(encoding="utf-8")
        for pin in wanted.values():  # uv joins the marker of a list with those of its dependents
            marker = f" ; {pin.marker}" if pin.marker else ""
            line = rf"^({re.escape(pin.key)}==[^\s;]+)[^\\\n]*"
            text = re.sub(line, rf"\g<1>{marker} ", text, flags=re.M)
        head = f"# Made from {name} by `python -m scripts.checks.requirements`: do not edit."
        output.write_text(ROOT / lock, "\n".join([head, *options, text]))
        earlier.append(lock)
        say(f"{lock}: {len(read(ROOT / lock)[0])} packages")
    return 0


if __name__ == "__main__":
    run_main("pins", lambda: main(sys.argv[1:]))
