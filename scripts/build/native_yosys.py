# SPDX-License-Identifier: Apache-2.0
"""Runner of yosys commands with the native build in the wheel `pyosys`.

Call: `python -m scripts.build.native_yosys COMMAND...`. The native build maps several times faster
than the WebAssembly build, but cannot read SystemVerilog: it starts from the output of
`write_rtlil` of the WebAssembly build.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from scripts.common import tool_versions


def version() -> str | None:
    """Return the version of the native build (package pyosys); None if it is not installed."""
    return tool_versions.package_version("pyosys")


def program() -> list[str]:
    """Return the start of a command line that runs this module; append yosys commands to it."""
    return [sys.executable, "-m", "scripts.build.native_yosys"]


def main(commands: Sequence[str]) -> int:
    """Run yosys commands on one design and return 0.

    At the first command that fails, yosys ends this process with its exit code.
    """
    from pyosys import libyosys as library

    design = library.Design()
    for command in commands:
        library.run_pass(command, design)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
