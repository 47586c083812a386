# SPDX-License-Identifier: Apache-2.0
"""MyHDL twins of RTL modules (`models/myhdl`) as sources of a build.

They replace the hand-written modules or are added to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from models.myhdl import convert
from scripts.build.filelist import read_source
from scripts.common.errors import NfError
from scripts.common.records import Dut

FOLDER = "models/myhdl"


def sources(root: Path) -> dict[str, str]:
    """Return the Python texts of all twins, by path from the root."""
    paths = [f"{FOLDER}/{name}.py" for name in convert.names()]
    return {path: read_source(root / path, path) for path in paths}


def placed(texts: Mapping[str, str], dut: Dut, parameters: Mapping[str, int]) -> dict[str, str]:
    """Return the new Verilog texts, by path, of the modules of a design that have a twin.

    With Dut.MYHDL a text is the converted twin alone, with Dut.BOTH also the hand-written module.

    Args:
        texts: Texts of the design and of the twins, by path.
        dut: Implementation to use.
        parameters: Parameters of the top.

    Raises:
        NfError: MyHDL cannot convert a twin.
    """
    out: dict[str, str] = {}
    for path, hand_written in texts.items():
        name = PurePosixPath(path).stem
        twin = texts.get(f"{FOLDER}/{name}.py")
        if not path.endswith(".sv") or twin is None:
            continue
        given = tuple(sorted(parameters.items()))
        try:
            made, instance = convert.converted(name, twin, given, hand_written)
        except Exception as error:  # the twin may have a fault, and MyHDL raises whatever it meets
            raise NfError(f"{FOLDER}/{name}.py is not converted: {error}") from error
        out[path] = made + (instance if dut is Dut.MYHDL else hand_written)
    return out
