# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.pins`: writes the lock files: all that may be installed, by hash.

`requirements.txt` is the list that people read: a pin and its reason. The lock file beside it has
the same pins with the SHA-256 of the wheel that pip takes for each supported Python and machine,
or of the source where there is no wheel. Set-up installs from the lock file alone
(`--require-hashes --no-deps`), so nothing comes in without a pin. `problems` needs no network.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from neuron_fabric import output
from neuron_fabric.data import as_object, read_json
from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
GLIBC = 36  # of the oldest image that CI runs, Debian 12
LISTS = {
    "requirements.txt": "requirements.lock",
    "requirements-cluster.txt": "requirements-cluster.lock",
    "requirements-torch.txt": "requirements-torch.lock",
}

_PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!-]+)\s*(?:;\s*(?P<marker>[^\\#]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
_BROUGHT_IN = "# brought in by the above"
_NOT_IMPORTED = "not imported: "
_IMPORT = re.compile(r"^\s*(?:import|from) ([\w.]+)", re.MULTILINE)
_OWN = "cocotbext.cxl"  # the rest of cocotbext is installed
_MISSING = re.compile(r"No matching distribution found for ([\w.-]+)==")


@dataclass
class Pin:
    """A line of a list; in a lock file also the hashes of its files.

    ``why`` is its comment; ``direct``: the project itself uses it, not another pin alone.
    """

    name: str
    version: str
    marker: str = ""
    why: str = ""
    direct: bool = True
    hashes: set[str] = field(default_factory=set)

    def applies(self, python: str, machine: str) -> bool:
        """Whether the list asks for it there."""
        where = {"python_version": python, "platform_machine": machine}
        return not self.marker or Marker(self.marker).evaluate(where)

    @property
    def key(self) -> str:
        """The name as package indexes compare it."""
        return str(canonicalize_name(self.name))


def read(path: Path) -> tuple[dict[str, Pin], list[str]]:
    """Pins of a list or of a lock file by name, and its lines that are options of pip.

    Raises NfError for a line that is neither.
    """
    pins: dict[str, Pin] = {}
    options: list[str] = []
    direct = True
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for whole in text.splitlines():
        line, why = (part.strip() for part in whole.partition(" #")[::2])
        direct = direct and not line.startswith(_BROUGHT_IN)
        if line.startswith("--"):
            options.append(line)
        elif line and not line.startswith("#"):
            found = _PIN.match(line)
            if found is None:
                raise NfError(f"{path.name}: `{line[:80]}` is no pin (NAME==VERSION).")
            marker = (found["marker"] or "").partition("--hash")[0].strip()
            hashes = set(_HASH.findall(line))
            pin = Pin(found["name"], found["version"], marker, why, direct, hashes)
            pins[pin.key] = pin
    return pins, options


def problems(root: Path = ROOT) -> list[str]:
    """Where a list and its lock file do not agree, one line each."""
    out: list[str] = []
    versions: dict[str, str] = {}
    for name, lock in LISTS.items():
        if not (root / lock).is_file():
            out.append(f"{lock} is missing")
            continue
        wanted, locked = read(root / name)[0], read(root / lock)[0]
        for key in sorted(wanted.keys() | locked.keys()):
            here, there = wanted.get(key), locked.get(key)
            if here is None or there is None:
                where, other = (lock, name) if here is None else (name, lock)
                out.append(f"{where} has {key}, {other} has not")
            elif here.version != there.version:
                out.append(f"{name} has {key} {here.version}, {lock} has {there.version}")
            elif here.marker != there.marker:
                out.append(f"{name} has {key} for `{here.marker}`, {lock} for `{there.marker}`")
            elif not there.hashes:
                out.append(f"{lock} has no hash of {key}")
            elif versions.setdefault(key, here.version) != here.version:
                out.append(f"{name} has {key} {here.version}, another list {versions[key]}")
    return [f"{line}: run `python -m scripts.checks.pins`" for line in out]


def unused(root: Path, files: Iterable[Path]) -> list[str]:
    """Pins that nothing uses, one line each: direct ones that none of ``files`` imports and whose
    line does not say why not, others that no pin requires. Lists that are not installed are left
    out."""
    out: list[str] = []
    imported = {
        canonicalize_name(distribution)
        for module in {module for path in files for module in _imports(path)}
        for distribution in _DISTRIBUTIONS.get(module, ())
    }
    required: set[str] = set()
    for name in LISTS:
        pins = read(root / name)[0]
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for key in pins:
                required |= names(importlib.metadata.requires(key) or ())
            for key, pin in pins.items():
                excused = pin.why.startswith(_NOT_IMPORTED)
                if not pin.direct and key not in required:
                    out.append(f"{name}: no pin requires {key}: remove it")
                elif pin.direct and key in imported and excused:
                    out.append(f"{name}: {key} is imported: its line says `{_NOT_IMPORTED}`")
                elif pin.direct and key not in imported and not excused:
                    out.append(
                        f"{name}: nothing imports {key}: remove it, or write `{_NOT_IMPORTED}` and "
                        "the reason behind it"
                    )
    return out


_DISTRIBUTIONS = importlib.metadata.packages_distributions()


def _imports(path: Path) -> set[str]:
    """Modules that a source imports, by the first part of their names."""
    found = _IMPORT.findall(path.read_text(encoding="utf-8"))
    return {name.partition(".")[0] for name in found if not name.startswith(_OWN)}


def names(
    requirements: Iterable[str], extra: str = "", pythons: Iterable[str] = PYTHONS
) -> set[str]:
    """What requirements ask for with that extra, or with none, on any of these Pythons."""
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
    """Whether a lock file has a file of this package for this Python and machine."""
    python, machine = "{}.{}".format(*sys.version_info), platform.machine()
    locked = [read(root / lock)[0].get(name) for lock in LISTS.values()]
    return any(pin.applies(python, machine) for pin in locked if pin is not None)


def main(words: Sequence[str] = ()) -> int:
    """Write every lock file; needs the package indexes. `--has NAME` asks for one instead."""
    if len(words) == 2 and words[0] == "--has":
        return 0 if has(words[1]) else 1
    if words:
        raise NfError("no arguments, or --has NAME")
    for name, lock in LISTS.items():
        pins, options = read(ROOT / name)
        _resolve(pins, options)
        output.write_text(ROOT / lock, _text(name, pins.values(), options))
        say(f"{lock}: {len(pins)} packages, {sum(len(p.hashes) for p in pins.values())} hashes")
    return 0


def _resolve(pins: Mapping[str, Pin], options: list[str]) -> None:
    """Find the files that pip would take: a wheel for each machine, else the source. NfError for a
    pin that has neither on a machine where its marker asks for it."""
    sources: dict[str, Pin] = {}
    for python in PYTHONS:
        for machine in MACHINES:
            todo = {key: pin for key, pin in pins.items() if pin.applies(python, machine)}
            while lack := _hash(todo.values(), [*options, *_target(python, machine)]):
                sources[lack] = todo.pop(lack)
    for pin in sources.values():
        if _hash([pin], [*options, "--no-build-isolation", "--no-binary", pin.name]):
            raise NfError(
                f"{pin.name} {pin.version} is not to be had everywhere: give it a marker."
            )


def _target(python: str, machine: str) -> list[str]:
    """Options of pip: wheels for another Python and machine."""
    tags = [f"manylinux_2_{n}_{machine}" for n in range(GLIBC, 4, -1)]
    tags += [
        f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")
    ]
    words = ["--only-binary", ":all:", "--python-version", python]
    return words + [word for tag in tags for word in ("--platform", tag)]


def _hash(pins: Collection[Pin], options: list[str]) -> str | None:
    """Note the hash of what pip would install of these; or the one that it finds no file of."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder, "wanted.txt"), Path(folder, "report.json")
        wanted.write_text("".join(f"{p.name}=={p.version}\n" for p in pins), encoding="utf-8")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"),
                *("--ignore-installed", "--report", report, "-r", wanted),
                *(("--target", folder) if "--platform" in options else ()),
                *(word for option in options for word in option.split()),
            ],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            found = _MISSING.search(done.stderr)
            if found is None:
                raise NfError(f"pip: {done.stderr.strip()[-600:]}")
            return str(canonicalize_name(found[1]))
        rows = as_object(read_json(report))["install"]
    by_key = {pin.key: pin for pin in pins}
    for row in rows:
        pin = by_key[canonicalize_name(row["metadata"]["name"])]
        pin.hashes.add(row["download_info"]["archive_info"]["hashes"]["sha256"])
    return None


def _text(name: str, pins: Iterable[Pin], options: list[str]) -> str:
    lines = [f"# Made from {name} by `python -m scripts.checks.pins`: do not edit.", *options]
    for pin in sorted(pins, key=lambda pin: pin.key):
        lines.append(f"{pin.name}=={pin.version}" + (f" ; {pin.marker}" if pin.marker else ""))
        for hashed in sorted(pin.hashes):
            lines[-1] += " \\"
            lines.append(f"    --hash=sha256:{hashed}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NfError as error:
        sys.exit(f"pins: {error}")
