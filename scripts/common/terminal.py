# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal: lines wrap between words, states have a colour, tables fit, bars move.

Other outputs (pipes, files, a terminal with TERM=dumb) get every line as it was written.
NO_COLOR removes the colours; FORCE_COLOR adds them to every output. rich is imported when a line
needs it, since that takes 50 ms.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TextIO, cast

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
_COMMAND = re.compile(r"(?:^|[: ] *)(\.venv/bin/[^`]*)$")
_NARROWEST, _USUAL = 20, 80  # columns of a terminal
_BAR, _READABLE = 20, 30  # columns of a bar, and of text in a table


def clock(seconds: float) -> str:
    """Return seconds as 1:05 or 2:00:13."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def many(number: int, word: str) -> str:
    """Return "1 hole", "2 holes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def wrapped(line: str, width: int) -> list[str]:
    """Break a line between words; a word that is longer than ``width`` stays whole.

    The rest is indented to the last column of text that begins in the left half, or by four more
    than the line. A command to paste goes on after a backslash, or stays whole if one of its
    arguments has a space.
    """
    if len(line) <= width or "\x1b" in line:
        return [line]
    more, command = "", _COMMAND.search(line)
    if command:
        try:
            more = "" if " " in "".join(shlex.split(command[1])) else " \\"
        except ValueError:  # an open quotation mark
            more = ""
        if not more:
            return [line]
    columns = [gap.end() for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", line[: width // 2])]
    lines = textwrap.wrap(
        line,
        max(width, _NARROWEST) - len(more),
        subsequent_indent=" " * (columns[-1] if columns else 4 + len(line) - len(line.lstrip())),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(f"{one}{more}" for one in lines[:-1]), lines[-1]]


class Terminal:
    """Standard output or error on a terminal, or with colours on another output.

    Attributes:
        fits: Lines are wrapped and tables and bars are drawn: the stream is a terminal that moves
            its cursor.
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

    @property
    def width(self) -> int:
        """Columns of the terminal now."""
        with suppress(OSError):
            return os.get_terminal_size(self._out.fileno()).columns or _USUAL
        return _USUAL

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
        text = "\n".join(wrapped(line, self.width) if self.fits else [line])
        states = self._colours and any(one.search(line) for one in _COLOURS.values())
        if Terminal.live is None and not states:
            self._out.write(f"{text}\n")
        else:
            self.draw(coloured(text), soft_wrap=True)

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
        """Print the rows. Where they do not fit, wrap the last column, or else each row."""
        out, (formats, rows) = sys.stdout, self._parts()
        if not isinstance(out, Terminal) or not out.fits or not rows:
            say(*self.lines())
            return
        from rich.table import Table as RichTable

        shown = [[one_line(cell.strip(), MAX_LINE) for cell in row] for row in rows]
        *first, last = zip(*([self.titles] if self.titles else []), *shown, strict=True)
        least = [min(len(cell), _READABLE) for cell in last]
        least += [len(word) for cell in last for word in cell.split()]
        widths = [max(map(len, column)) for column in first]
        before = sum(widths) + 2 * len(widths)
        if before + max(least) > out.width:
            widths = widths if before < 0.8 * out.width else [0] * len(widths)
            say(*("  ".join([*map(str.ljust, row, widths), row[-1]]) for row in shown))
            return
        table = RichTable(
            box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(self.titles)
        )
        for at, one in enumerate(formats):
            table.add_column(
                self.titles[at] if self.titles else "",
                justify="right" if ">" in one else "left",
                no_wrap=at < len(first),
            )
        for row in shown:
            table.add_row(*map(coloured, row))
        with out.console.capture() as drawn:
            out.console.print(table)
        sys.stdout.write(re.sub(r"(?m) +$", "", drawn.get()))


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
        text = "\n".join(
            part for line in note.split("\n") for part in wrapped(line, self._terminal.width)
        )
        Terminal.live.update(Group(grid, Text(text)), refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal is not None and Terminal.live is not None:
            Terminal.live.stop()
            Terminal.live = None
