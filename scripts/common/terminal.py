# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal: states have a colour, tables fit, bars move.

Other outputs (pipes, files, a terminal with TERM=dumb) get every line as it was written.
NO_COLOR removes the colours; FORCE_COLOR adds them to every output. rich is imported when a line
needs it, since that takes 50 ms.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TextIO, cast

from neuron_fabric.errors import MAX_LINE, say
from neuron_fabric.printable import one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

_COLOURS = {
    "green": re.compile(
        r"^ *(?:PASS|ok|proved|bounded|caught)\b|^=====.*\b[1-9]\d* passed, 0 failed.*|\bok$"
    ),
    "bold red": re.compile(
        r"^ *(?:FAIL|broken|alive|missed)\b|\b(?:MISSED|MISSING)\b|^=====.*\b[1-9]\d* failed.*"
    ),
    "yellow": re.compile(r"^ *(?:FLAKY|unknown|interrupted)\b|\bwarning:"),
}
_BAR = 20  # columns


def clock(seconds: float) -> str:
    """Return seconds as 1:05 or 2:00:13."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def many(number: int, word: str) -> str:
    """Return "1 hole", "2 holes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


class Terminal:
    """Standard output or error on a terminal, or with colours on another output.

    Attributes:
        fits: Tables and bars are drawn: the stream is a terminal that moves its cursor.
        live: Live region at the bottom of the terminal, at most one.
    """

    live: ClassVar[Live | None] = None

    def __init__(self, out: TextIO) -> None:
        self._out, self._rest = out, ""
        self.fits = out.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
        self._colours = (self.fits or forced) and not os.environ.get("NO_COLOR")
        self.plain = not (self.fits or self._colours)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)

    @cached_property
    def console(self) -> Console:
        """Console of rich on this stream; variables of the environment do not change it.

        The cursor stays visible, since a process that is killed would not show it again.
        """
        from rich.console import Console

        class VisibleCursor(Console):
            def show_cursor(self, show: bool = True) -> bool:
                return show

        return VisibleCursor(
            file=self._out,
            force_terminal=True,
            color_system="standard" if self._colours else None,
            _environ={},
        )

    def write(self, text: str) -> int:
        """Write whole lines; the rest waits for its end or for `flush`."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)

    def flush(self) -> None:
        """Write the rest, a question for example, and flush the stream."""
        self._out.write(self._rest)
        self._rest = ""
        self._out.flush()

    def _line(self, line: str) -> None:
        states = self._colours and any(one.search(line) for one in _COLOURS.values())
        if Terminal.live is None and not states:
            self._out.write(f"{line}\n")
        else:
            self.draw(coloured(line), soft_wrap=True)

    def draw(self, what: RenderableType, *, soft_wrap: bool = False) -> None:
        """Print a renderable object of rich, above the live region."""
        console = Terminal.live.console if Terminal.live else self.console
        console.print(what, soft_wrap=soft_wrap)


def coloured(text: str) -> Text:
    """Return a text with the colours of the states in it."""
    from rich.text import Text

    out = Text(text)
    for style, pattern in _COLOURS.items():
        out.highlight_regex(pattern, style)
    return out


@contextmanager
def installed() -> Iterator[None]:
    """Replace standard output and error by `Terminal` where that makes a difference."""
    before = sys.stdout, sys.stderr
    made = [Terminal(stream) for stream in before]
    sys.stdout, sys.stderr = (
        stream if one.plain else cast(TextIO, one) for stream, one in zip(before, made, strict=True)
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class TextTable(NamedTuple):
    """Rows in columns.

    Attributes:
        columns: Format of a plain line, for example ``{:18} {:>7.1f} s  {}``; each brace that
            follows a space begins a column.
        rows: Values of each row.
        titles: Titles of the columns, if they have any.
    """

    columns: str
    rows: Sequence[Sequence[object]]
    titles: Sequence[str] = ()

    def _parts(self) -> tuple[list[str], list[list[str]]]:
        """Return the format of each column, and the formatted cells of each row."""
        formats: list[str] = re.findall(r" *\{.*?(?= +\{|$)", self.columns)
        rows = [iter(row) for row in self.rows]
        return formats, [
            [one.format(*islice(row, one.count("{"))) for one in formats] for row in rows
        ]

    def lines(self) -> list[str]:
        """Return the plain lines; without rows there are none."""
        formats, rows = self._parts()
        head = ""
        for title, one, cells in zip(self.titles, formats, zip(*rows, strict=True), strict=False):
            text, gap = one.lstrip(), len(one) - len(one.lstrip())
            width = min(map(len, cells)) - gap
            head += " " * gap + (title.rjust(width) if ">" in text else title.ljust(width))
        return [*([head.rstrip()] if head else []), *("".join(row) for row in rows)]

    def show(self) -> None:
        """Print the rows; on a terminal in columns that fit it."""
        out, (formats, rows) = sys.stdout, self._parts()
        if not isinstance(out, Terminal) or not out.fits:
            say(*self.lines())
            return
        from rich.table import Table as RichTable

        table = RichTable(
            box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(self.titles)
        )
        for title, one in zip_longest(self.titles, formats, fillvalue=""):
            justify: Literal["left", "right"] = "right" if ">" in one else "left"
            table.add_column(title, justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(coloured(one_line(cell.strip(), MAX_LINE)) for cell in row))
        out.draw(table)


class Bars:
    """Live region: bars and a note at the bottom of a terminal; nothing on other outputs."""

    def __init__(self, out: TextIO | None = None) -> None:
        out = out or sys.stdout
        alone = isinstance(out, Terminal) and out.fits and Terminal.live is None
        self._terminal = cast(Terminal, out) if alone else None

    @property
    def moves(self) -> bool:
        """Return whether `draw` shows anything."""
        return self._terminal is not None

    def draw(self, note: str, **bars: tuple[int, int]) -> None:
        """Draw a bar for each finished and whole number, and the note."""
        if self._terminal is None:
            return
        from rich.console import Group
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.table import Table as RichTable
        from rich.text import Text

        if Terminal.live is None:
            Terminal.live = Live(
                console=self._terminal.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            Terminal.live.start()
        grid = RichTable.grid(padding=(0, 1))
        for name, (done, whole) in bars.items():
            bar = ProgressBar(whole, done, width=_BAR, complete_style="green")
            grid.add_row(name, bar, f"{done:,}/{whole:,}")
        Terminal.live.update(Group(grid, Text(note)), refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal is not None and Terminal.live is not None:
            Terminal.live.stop()
            Terminal.live = None
