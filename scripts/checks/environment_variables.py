# SPDX-License-Identifier: Apache-2.0
"""Environment variables of the project: each NF_* has a row in `docs/environment.md`."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.checks import tracked_files

TABLE = Path("docs", "environment.md")
SUFFIXES = (".py", ".sh", ".cpp", ".h", ".yml")
# A variable in Python and C++ is a whole string or the head of `NAME=value`; in a shell script
# it follows a dollar sign or precedes an equals sign.
_CODE = re.compile(
    r"""["'](NF_[A-Z0-9_]+)(?=["'=])|\$\{?(NF_[A-Z0-9_]+)|^\s*(NF_[A-Z0-9_]+)=""", re.M
)
_ROW = re.compile(r"^\| `(NF_[A-Z0-9_]+)` \|", re.MULTILINE)


def violations(root: Path) -> list[str]:
    """Return an error line for each variable without a row and each row without a variable."""
    used: dict[str, str] = {}
    for path in tracked_files.files(root, *SUFFIXES):
        if not tracked_files.is_test(path):
            for found in _CODE.finditer(path.read_text(encoding="utf-8")):
                name = next(filter(None, found.groups()))
                used.setdefault(name, path.relative_to(root).as_posix())
    table = root / TABLE
    listed = set(_ROW.findall(table.read_text(encoding="utf-8"))) if table.is_file() else set()
    out = [
        f"{where}: {name} is not in {TABLE.as_posix()}: add a row"
        for name, where in used.items()
        if name not in listed
    ]
    gone = sorted(listed - used.keys())
    return out + [f"{TABLE.as_posix()}: nothing reads {name}: drop its row" for name in gone]
