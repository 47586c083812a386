# SPDX-License-Identifier: Apache-2.0
"""The core file of FuseSoC (CAPI2): it names the files and parameters of the controller.

They are those of the file list, in its order, and of the top module, with default and comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.build.filelist import read_filelist
from scripts.checks.generated_tables import controller_parameters
from scripts.common import data
from scripts.common.records import FILELIST, TOP

CORE = "hdl/neuron_fabric.core"
WAIVERS = "lint"


def problems(root: Path) -> list[str]:
    """Return an error line for each part of the core file that differs from the sources."""
    core = data.load(root / CORE, dict[str, Any])
    return [
        f"{CORE}: {' / '.join(keys)} is not that of {source}: {_first(_at(core, keys), wanted)}"
        for keys, source, wanted in _wanted(root)
        if _at(core, keys) != wanted
    ]


def _wanted(root: Path) -> Iterator[tuple[tuple[str, ...], str, object]]:
    """Yield what the core file must hold: the keys that lead to it, its source, the value."""
    listed, folder = read_filelist(root, FILELIST), (root / CORE).parent
    headers = [root / name for name in listed.headers(root)]
    files: list[object] = [
        {_under(folder, path): {"is_include_file": True, "include_path": path.parent.name}}
        for path in headers
    ]
    files += [_under(folder, root / name) for name in listed.sources]
    waivers = [_under(folder, path) for path in sorted((folder / WAIVERS).glob("*.vlt"))]
    parameters = {
        name: {
            "datatype": "int",
            "default": int(value),
            "paramtype": "vlogparam",
            "description": f"{span}: {what}",
        }
        for name, value, span, what in controller_parameters(root)
    }
    yield ("filesets", "rtl", "files"), FILELIST, files
    yield ("filesets", "waivers", "files"), f"hdl/{WAIVERS}", waivers
    yield ("parameters",), TOP, parameters
    for target in ("default", "lint"):
        yield ("targets", target, "parameters"), TOP, list(parameters)


def _under(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _at(core: Any, keys: tuple[str, ...]) -> Any:
    """Return the value below some keys; None if there is none."""
    for key in keys:
        core = core.get(key) if isinstance(core, dict) else None
    return core


def _first(found: Any, wanted: Any) -> str:
    """Return the first entry that differs, as text."""
    kind = type(wanted)
    if not isinstance(found, kind):
        return f"no {kind.__name__}"
    if kind is dict:
        found, wanted = list(found.items()), list(wanted.items())
    missing = [one for one in wanted if one not in found]
    foreign = [one for one in found if one not in wanted]
    if missing or foreign:
        return f"{missing[0]} is missing" if missing else f"{foreign[0]} is foreign"
    return "another order, or an entry twice"
