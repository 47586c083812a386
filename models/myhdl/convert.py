# SPDX-License-Identifier: Apache-2.0
"""Conversion of MyHDL twins to Verilog, and to the hand-written module with its twin inside.

A twin is loaded from its file, so that a faulty copy is loaded in the same way.
"""

import functools
import importlib.util
import inspect
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from models.myhdl.ports import Ports, ports_of

FOLDER = Path(__file__).parent
PREFIX = "myhdl_"
"""Prefix of a converted module, which allows both modules in one design."""
_ONE_AT_A_TIME = threading.Lock()  # MyHDL's converter is one object with state


def names() -> list[str]:
    """Return the names of the RTL modules that have a twin, sorted."""
    return sorted(path.stem for path in FOLDER.glob("nf_*.py"))


class Twin:
    """MyHDL twin of an RTL module, loaded from the file NAME.py.

    Attributes:
        name: name of the RTL module.
        parameters: parameters of the twin by name in lower case; those that the constructor does
            not get have their defaults.
        ports: names and widths of the ports.

    The constructor ignores unknown parameters; ``folder`` is the folder of the file, which MyHDL
    reads again when it converts.
    """

    def __init__(
        self, name: str, parameters: Mapping[str, int] | None = None, folder: Path = FOLDER
    ) -> None:
        self.name = name
        self._module = _load(folder / f"{name}.py")
        known = inspect.signature(inspect.unwrap(getattr(self._module, name))).parameters
        defaults = {key: one.default for key, one in known.items() if one.default is not one.empty}
        given = {key.lower(): value for key, value in (parameters or {}).items()}
        self.parameters: dict[str, int] = {key: given.get(key, defaults[key]) for key in defaults}
        self.ports: Ports = ports_of(getattr(self._module, name), self.parameters)

    def block(self, signals: Mapping[str, Any]) -> Any:
        """Return a MyHDL instance of the twin, connected to these signals, one for each port."""
        return getattr(self._module, self.name)(**signals, **self.parameters)

    def verilog(self) -> str:
        """Return the Verilog text of the converted twin, a module named PREFIX + name."""
        with tempfile.TemporaryDirectory() as made, _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ports that nothing reads
            self.block(self.ports.signals()).convert(
                hdl="Verilog",
                name=PREFIX + self.name,
                path=made,
                no_myhdl_header=True,
                no_testbench=True,
            )
            text = (Path(made) / f"{PREFIX}{self.name}.v").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("`timescale")]
        return "\n".join(["`default_nettype wire", *lines, ""])

    def inside(self, header: str) -> str:
        """Return the Verilog text of the hand-written module with the twin as its only content.

        It stops the simulation if a parameter differs from the value that the twin was converted
        for.

        Args:
            header: Text of the hand-written module up to the end of its port list at least.

        Raises:
            ValueError: There is no end of the port list.
        """
        head, end, _ = header.partition("\n);\n")
        if not end:
            raise ValueError(f"{self.name}: no end of the port list")
        ports = [*(["clk"] if self.ports.clocked else []), *self.ports.inputs, *self.ports.outputs]
        checks = [
            f"  initial if ({key.upper()} != {value}) $fatal(1, "
            f'"{self.name}: its twin was converted for {value}");\n'
            for key, value in self.parameters.items()
        ]
        pins = ", ".join(f".{port}({port})" for port in ports)
        return (
            f"{head}{end}\n{''.join(checks)}  {PREFIX}{self.name} u_twin ({pins});\n\n"
            "endmodule\n\n`default_nettype wire\n"
        )


def _load(path: Path) -> ModuleType:
    """Import the module of a file under a unique name, and return it."""
    spec = importlib.util.spec_from_file_location(f"twin_{path.stem}_{abs(hash(path))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where `inspect` looks
    spec.loader.exec_module(module)
    return module


@functools.cache
def converted(
    name: str, text: str, parameters: tuple[tuple[str, int], ...], header: str
) -> tuple[str, str]:
    """Return two Verilog texts: the converted twin, and the hand-written module with it inside.

    Args:
        name: Name of the RTL module.
        text: Python source of the twin.
        parameters: (name, value) of each parameter of the RTL module.
        header: See `Twin.inside`.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.py").write_text(text, encoding="utf-8")
        twin = Twin(name, dict(parameters), Path(folder))
        return twin.verilog(), twin.inside(header)
