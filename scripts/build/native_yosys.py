# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.build.native_yosys COMMAND...`: commands of yosys, one after the other, by the
native wheel (pyosys). It maps several times faster than the WebAssembly build, but cannot read
SystemVerilog: it begins with what `write_rtlil` of that build has left."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from scripts.common import toolchain


def version() -> str | None:
    """Of the native build, where it is installed."""
    return toolchain.package_version("pyosys")


def program() -> list[str]:
    """What runs commands that are put behind it."""
    return [sys.executable, "-m", "scripts.build.native_yosys"]


def main(commands: Sequence[str]) -> int:
    """Run them; yosys ends this process, with its own exit code, at the first that it refuses."""
    library = importlib.import_module("pyosys.libyosys")
    design = library.Design()
    for command in commands:
        library.run_pass(command, design)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
