# SPDX-License-Identifier: Apache-2.0
"""Result file of a figure: JSON with set-up, tables, plots and followed figures.

Terminal and page show only numbers of such a file.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import read_text
from neuron_fabric.errors import say
from neuron_fabric.typed import typed
from scripts.common import data, secret_values
from scripts.common.git import CHANGED, revision
from scripts.common.paths import BUILD, shown, writable
from scripts.report.invocation import moment

FOLDER = BUILD / "figures"
NO_CLAIM = (
    "Measured on this project's RTL or counted from its formats, in the set-up that stands here; "
    "none is a figure of the NEURON-Fabric paper, whose set-up is not public."
)
Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """Column of a table: its head, and the ``digits`` after the decimal point of a float."""

    name: str
    digits: int = 2


@dataclass(frozen=True)
class Table:
    """Table of cells, one per column; None is printed as a dash."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(
        title: str,
        names: Sequence[str],
        rows: Iterable[tuple[Cell, ...]],
        notes: Iterable[str] = (),
        digits: int = 2,
    ) -> Table:
        """Return a table whose columns all have the same number of digits."""
        columns = tuple(Column(name, digits) for name in names)
        return Table(title, columns, tuple(rows), tuple(notes))

    def texts(self) -> list[list[str]]:
        """Return the head and every row as printed texts."""
        head = [column.name for column in self.columns]
        return [
            head,
            *(
                [_text(c, col) for c, col in zip(row, self.columns, strict=True)]
                for row in self.rows
            ),
        ]


def _text(cell: Cell, column: Column) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.{column.digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


@dataclass(frozen=True)
class Line:
    """Line of a plot: points (x, y) in the order of x; with ``formula`` computed, not measured."""

    name: str
    points: tuple[tuple[float, float], ...]
    formula: bool = False


@dataclass(frozen=True)
class Plot:
    """Plot of lines over one axis; ``x`` and ``y`` name quantity and unit."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """Measured content of a figure, before its duration is known.

    Attributes:
        set_up: Pairs of subject and description.
        tables: Tables.
        plots: Plots.
        left_out: Omissions with their reasons.
        followed: Figures that are compared with the baseline, by name with their unit.
    """

    set_up: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...] = ()
    left_out: tuple[str, ...] = ()
    followed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FigureResult(Measured):
    """Content of the result file of a figure: what was measured, and how to repeat it.

    `figure` is its name, `revision` the git commit, `started` a date and time, `seconds` the
    duration.
    """

    figure: str
    command: str
    revision: str
    started: str
    seconds: float


_SET_UP = Path(__file__).with_name("set_up.yaml")


def set_up(figure: str, **values: object) -> tuple[tuple[str, str], ...]:
    """Return the set-up of a figure from `set_up.yaml`, with names in braces replaced by values."""
    texts = typed(dict[str, tuple[tuple[str, str], ...]], data.parse_yaml(read_text(_SET_UP)))
    return tuple((what, how.format(**values)) for what, how in texts[figure])


def path_of(figure: str, folder: Path = FOLDER, part: bool = False) -> Path:
    """Return the path of the result file of a figure; with ``part`` of a part of the figure."""
    return folder / (f"{figure}-part.json" if part else f"{figure}.json")


def measure(
    figure: str,
    action: Callable[[], Measured],
    command: str = "",
    folder: Path = FOLDER,
    part: bool = False,
    commit: str = "",
) -> FigureResult:
    """Measure a figure, write its result file, print it and return it.

    Args:
        figure: Name of the figure.
        action: Measurement.
        command: Command that repeats it; empty for the command line of this process.
        folder: Folder of result files.
        part: Only a part of the figure is measured.
        commit: Commit at the start of a command of several figures; empty: the present one. If the
            commit differs after the measurement, the result counts as changed.
    """
    writable(folder)
    start, commit = time.time(), commit or revision()
    found = action()
    if revision().partition(",")[0] != commit.partition(",")[0]:
        commit = f"{commit.partition(',')[0]}{CHANGED}"
    result = FigureResult(
        **vars(found),
        figure=figure,
        command=command or secret_values.command(),
        revision=commit,
        started=moment(start),
        seconds=round(time.time() - start, 1),
    )
    path = path_of(figure, folder, part)
    text = json.dumps(dataclasses.asdict(result), indent=1, allow_nan=False)
    output.write_text(path, text + "\n")
    say(*lines(result), f"nf measure figures {figure}: {result.seconds:.1f} s, {shown(path)}")
    return result


def read(figure: str, folder: Path = FOLDER) -> FigureResult:
    """Read the result file of a figure; NfError if it cannot be read."""
    return data.load_json(path_of(figure, folder), FigureResult)


# -- on the terminal ----------------------------------------------------------------------------
def lines(result: FigureResult) -> list[str]:
    """Return a result as text lines for the terminal."""
    out = [f"{what}: {how}" for what, how in result.set_up]
    for table in result.tables:
        out += ["", table.title, *aligned(table.texts()), *table.notes]
    if result.left_out:
        out += ["", *(f"left out: {text}" for text in result.left_out)]
    return [*out, NO_CLAIM]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines with aligned columns: texts left, numbers right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    number = [all(_is_number(row[at]) for row in rows[1:]) for at in range(len(widths))]
    return [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, number, strict=True)
        ).rstrip()
        for row in rows
    ]


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(",", "").replace(".", "").lstrip("+-").isdecimal()
