# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.release VERSION`: make the commit and the tag of a release.

Both packages, CITATION.cff, the core of FuseSoC and the newest section of CHANGELOG.md have one
version; `nf check` compares them. A release writes that version, moves the entries of the section
Unreleased below it with the date, and makes one commit with the tag vVERSION. It pushes nothing:
the pushed tag starts `.github/workflows/release.yml`.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.checks.core_file import CORE
from scripts.common import git
from scripts.common.errors import NfError, OptionError, run_main
from scripts.common.paths import ROOT

CHANGELOG = "CHANGELOG.md"
CITATION = "CITATION.cff"
PLACES = {
    "neuron_fabric/version.py": re.compile(r'(?<=^VERSION = ")[^"]*', re.M),
    "cocotbext/cxl/__init__.py": re.compile(r'(?<=^__version__ = ")[^"]*', re.M),
    CITATION: re.compile(r"(?<=^version: )\S*", re.M),
    CORE: re.compile(r"(?<=^name: neuron-fabric:cxl:nf_controller:)\S*", re.M),
}
"""The version in each file that has one, besides the change log."""
_OPEN = "## [Unreleased]\n"
_SECTION = re.compile(r"^## \[(.*)\](.*)$", re.M)
_DATE = re.compile(r" - \d{4}-\d\d-\d\d")
_RELEASED = re.compile(r"^(version: .*)(\ndate-released: .*)?$", re.M)


def problems(root: Path) -> list[str]:
    """Return an error line for each version that differs, and for each wrong section of changes."""
    first, *_ = PLACES
    found = {name: pattern.findall(_read(root, name)) for name, pattern in PLACES.items()}
    wanted = found[first]
    heads = _SECTION.findall(_read(root, CHANGELOG))
    if done := heads[1:]:
        found[CHANGELOG] = [done[0][0]]
    wrong = [
        f"{name}: version {', '.join(here) or 'missing'}, {first} has {', '.join(wanted)}: "
        "give both one version"
        for name, here in found.items()
        if here != wanted or len(here) != 1
    ]
    if heads[:1] != [("Unreleased", "")]:
        wrong.append(f"{CHANGELOG}: its first section is not `{_OPEN.strip()}`: add that")
    undated = [version for version, rest in done if not _DATE.fullmatch(rest)]
    return [*wrong, *(f"{CHANGELOG}: {one}: give the date as ` - YYYY-MM-DD`" for one in undated)]


def release(version: str, root: Path, date: str) -> str:
    """Make commit and tag of a release in a checkout, and return the name of the tag.

    Raises:
        NfError: It is refused; the checkout has not changed.
    """
    if wrong := problems(root):
        raise NfError(wrong[0])
    changes, tag = _read(root, CHANGELOG), f"v{version}"
    [current] = PLACES[CITATION].findall(_read(root, CITATION))
    try:
        canonical = str(Version(version))
    except InvalidVersion:
        canonical = "X.Y.Z"
    if canonical != version:
        raise OptionError(version, "is no version in its normal form", f"write {canonical}")
    published = f"## [{current}]" in changes
    if Version(version) < Version(current) or (published and version == current):
        raise OptionError(version, f"is not greater than {current}", "give a greater version")
    if not re.search("^- ", _SECTION.split(changes.partition(_OPEN)[2])[0], re.M):
        raise NfError(f"{CHANGELOG}: the section Unreleased is empty; say what users will see.")
    if git.text("status", "--porcelain", root=root):
        raise NfError("files differ from the last commit; commit or remove them (git status).")
    if git.text("tag", "--list", tag, root=root):
        raise OptionError(version, f"has the tag {tag} already", "give a greater version")
    texts = {name: pattern.sub(version, _read(root, name)) for name, pattern in PLACES.items()}
    texts[CITATION] = _RELEASED.sub(rf"\1\ndate-released: {date}", texts[CITATION])
    texts[CHANGELOG] = changes.replace(_OPEN, f"{_OPEN}\n## [{version}] - {date}\n", 1)
    before = git.text("rev-parse", "HEAD", root=root).strip()
    try:
        for name, text in texts.items():
            output.write_text(root / name, text)
        # Hooks take longer than git.text waits; the pipeline checks every pushed commit.
        said = ("--quiet", "--message", f"Release {version}")
        git.text("commit", "--no-verify", *said, "--", *texts, root=root)
        git.text("tag", "--annotate", *said[1:], tag, root=root)
    except BaseException:
        git.text("reset", "--quiet", "--hard", before, root=root)  # the tree had no changes
        raise
    return tag


def _read(root: Path, name: str) -> str:
    """Return the text of a file of the checkout."""
    return (root / name).read_text(encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Make a release of today, and print how to publish it; return the exit code 0."""
    parser = argparse.ArgumentParser("release", description="Commit and tag a release.")
    parser.add_argument("version", metavar="VERSION", help="the new version, as 0.2.0")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    tag = release(parser.parse_args(words).version, ROOT, today)
    say(f"release: {tag} is committed and tagged; publish it: git push origin HEAD {tag}")
    return 0


if __name__ == "__main__":
    run_main("release", lambda: main(sys.argv[1:]))
