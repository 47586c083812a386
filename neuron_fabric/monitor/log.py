# SPDX-License-Identifier: Apache-2.0
"""`monitor.jsonl`: log with one JSON record per text line, appended whole by rank 0.

Spec: runtime section 4.4.

| kind | when |
|---|---|
| run | at the start, and when a checkpoint was loaded: plan, state, names of the numbers |
| step | every step: the agreed numbers, and figures for people |
| closed | a round was closed: its bucket, and the ranks whose gradients came too late for it |
| sample | cosines of a step that has sampled |
| decision | every transition, with its reason and the digest of the states after it |
| capacity | a region's modelled times when they were judged |
| assignment | routes of the regions, their bytes, error and bound, when they were assigned |
| end | the run has ended, and why |

`monitor.schema.json` in this folder is the JSON Schema of one record. A reader uses all valid
records: a last line that was cut, and kinds that it does not know, are left out.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from neuron_fabric.data import DataError, open_file, parse_json
from neuron_fabric.errors import MonitorError, say
from neuron_fabric.monitor import states
from neuron_fabric.monitor.consensus import MOST_RANKS, Codec
from neuron_fabric.monitor.job_plan import Plan
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.monitor.states import Decision, JobState
from neuron_fabric.typed import typed

FORMAT = "neuron-fabric-monitor"
VERSION = 1
NAME = "monitor.jsonl"
SCHEMA = Path(__file__).with_name("monitor.schema.json")
MOST_LINE = 1 << 22
MOST_LINES = 50_000_000
MOST_BROKEN = 1_000
"""Lines without a record before the file is refused."""
MOST_RUNS = 1_000
"""`run` records of a log: one at the start and one after each loaded checkpoint."""
MOST_PLAIN = 8 << 20
"""Uncompressed bytes of a recording: 13,000 steps of four regions."""
_DECODER_BYTES = 1 << 27
"""Memory limit of the xz decoder; the highest preset needs 65 MiB."""
_UNKNOWN = "its kind is not known here"
_WORD = 1 << 63


class Log:
    """Writer of a run's log.

    If the log cannot be written, it warns once and the training continues without a log.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file: int | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_NONBLOCK  # do not wait for a reader of a FIFO
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, flags, 0o666)
            os.ftruncate(self._file, _whole(self.path))
        except OSError as error:
            self._lost(error)

    def write(self, kind: str, **values: object) -> None:
        """Append a record with one system call, so that its line is whole or missing."""
        if self._file is None:
            return
        line = json.dumps({"kind": kind, **values}, separators=(",", ":"), allow_nan=False) + "\n"
        try:
            data = line.encode()
            if os.write(self._file, data) != len(data):
                raise OSError(28, os.strerror(28), str(self.path))
        except OSError as error:
            self._lost(error)

    def close(self) -> None:
        """Close the file; later records are dropped."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lost(self, error: OSError) -> None:
        self.close()
        why = error.strerror or type(error).__name__
        lost = f"{self.path}: cannot be written ({why}); the training goes on without a log"
        say(f"neuron_fabric.hook: {lost}", file=sys.stderr)


def _whole(path: Path) -> int:
    """Return the size of a log in bytes up to its last whole line.

    A killed run may have left half a line.
    """
    with open_file(path) as stream:
        end = stream.seek(0, os.SEEK_END)
        while end:
            size = min(end, 1 << 16)
            stream.seek(end - size)
            at = stream.read(size).rfind(b"\n")
            if at >= 0:
                return end - size + at + 1
            end -= size
    return 0


def plain(value: Any) -> Any:
    """Return a value of the monitor as JSON types: dataclasses as dicts, enums as texts."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Run:
    """Record of kind `run`: a training started or resumed.

    ``step`` is the first step that it logs; ``state`` is that of the loaded checkpoint, None at the
    start of a training.
    """

    format: str
    version: int
    profile: str
    fingerprint: str
    world: int
    step: int
    plan: Plan
    fields: tuple[str, ...]
    state: JobState | None = None
    about: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the number of ranks. Raise DataError if it is out of range."""
        if not 1 <= self.world <= MOST_RANKS:
            raise DataError(f"world: {self.world} is not 1..{MOST_RANKS}")


@dataclass(frozen=True)
class Step:
    """Record of kind `step`; ``vector`` is the reduced vector, see `consensus.field_names`."""

    step: int
    vector: tuple[int, ...]
    mode: str
    loss: float | None = None
    bytes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Closed:
    """Record of kind `closed`: the ranks in ``late`` keep their gradients of the bucket."""

    step: int
    bucket: int
    late: tuple[int, ...]


@dataclass
class Segment:
    """Records of a log from one `run` record up to the next one."""

    run: Run
    steps: list[Step] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    samples: list[tuple[int, Mapping[str, float]]] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    capacity: list[Mapping[str, Any]] = field(default_factory=list)
    assignment: list[Mapping[str, Any]] = field(default_factory=list)
    end: str | None = None


def find(path: Path) -> Path:
    """Return the path of a run's log: `monitor.jsonl` in a folder, or the file itself.

    Raises:
        MonitorError: There is no such log.
    """
    log = path / NAME if path.is_dir() else path
    if not log.exists():
        raise MonitorError(log, "there is no such log", "give the folder that NF_MONITOR named")
    return log


def read(path: Path) -> tuple[list[Segment], list[str]]:
    """Read a monitor log, or a recording of one (.xz).

    Returns:
        The segments, and a text about each line that was left out (the first 1,000).

    Raises:
        MonitorError: The file cannot be opened, holds no `run` record, or is damaged too much.
    """
    segments: list[Segment] = []
    left_out: list[str] = []
    broken = 0
    try:
        with open_file(path) as file:
            stream = _plain_text(file, path)
            for number in range(1, MOST_LINES + 1):
                line = stream.readline(MOST_LINE + 1)
                if not line:
                    break
                if why := _take(segments, line):
                    if len(left_out) < MOST_BROKEN:
                        left_out.append(f"line {number} is left out: {why}")
                    broken += why != _UNKNOWN
                    if len(line) > MOST_LINE:
                        break
                if broken > MOST_BROKEN or len(segments) > MOST_RUNS:
                    what = f"more than {MOST_BROKEN:,} lines are no records"
                    if broken <= MOST_BROKEN:
                        what = f"it has more than {MOST_RUNS:,} run records"
                    raise MonitorError(path, what, "give the folder of a run")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise MonitorError(path, f"cannot be read ({why})", "give the folder of a run") from None
    except (lzma.LZMAError, EOFError) as error:
        raise MonitorError(path, f"is damaged ({error})", "give another recording") from None
    if not segments:
        what = left_out[0] if left_out else "is empty"
        raise MonitorError(path, f"no log of a run ({what})", "give the folder of a run")
    return segments, left_out


def _plain_text(file: BinaryIO, path: Path) -> BinaryIO:
    """Return the stream of a log; a recording is decompressed into memory up to a size limit.

    Raises:
        MonitorError: The recording is too large.
        LZMAError: It is damaged.
        EOFError: It ends early.
    """
    if path.suffix != ".xz":
        return file
    decoder = lzma.LZMADecompressor(memlimit=_DECODER_BYTES)
    data = decoder.decompress(file.read(MOST_PLAIN), max_length=MOST_PLAIN + 1)
    if len(data) > MOST_PLAIN:
        what = f"holds more than {MOST_PLAIN:,} bytes"
        raise MonitorError(path, what, "give a recording of `nf train monitor record`")
    if not decoder.eof:
        raise EOFError("it ends early")
    return io.BytesIO(data)


def _take(segments: list[Segment], line: bytes) -> str:
    """Parse one line of a monitor log and add its record to ``segments``.

    A `run` record starts a segment; other records are added to the last segment.

    Args:
        segments: Segments read so far; extended in place.
        line: Text line of the file, with its newline.

    Returns:
        "" if the record was added, else the reason why the line is left out: cut, too long,
        invalid, of unknown kind, or before the first `run` record.
    """
    if not line.endswith(b"\n"):
        return "it is cut" if len(line) <= MOST_LINE else f"it has more than {MOST_LINE:,} bytes"
    try:
        record = parse_json(line)
        if not isinstance(record, dict):
            return "no JSON object"
        kind = typed(str, record.pop("kind", None), "kind")
        if kind == "run":
            if record.get("format") != FORMAT:
                return f"its format is not {FORMAT}"
            if (version := record.get("version")) != VERSION:
                return f"it is of version {version!r}, this program reads {VERSION}"
            segments.append(Segment(typed(Run, record)))
            return ""
        if kind not in KINDS:
            return _UNKNOWN
        if not segments:
            return "no run record stands before it"
        _add(segments[-1], kind, record)
    except (DataError, ValueError) as error:
        return str(error)
    return ""


def _add(segment: Segment, kind: str, record: dict[str, Any]) -> None:
    if kind == "step":
        vector = record.get("vector")
        fits = isinstance(vector, list) and all(
            type(one) is int and -_WORD <= one < _WORD for one in vector
        )
        if not isinstance(vector, list) or not fits or len(vector) != len(segment.run.fields):
            raise DataError(f"vector: not the {len(segment.run.fields)} integers of the run")
        step = typed(Step, {**record, "vector": []})  # typed would check the numbers one by one
        segment.steps.append(replace(step, vector=tuple(vector)))
    elif kind == "decision":
        known = {one.name for one in fields(Decision)}
        segment.decisions.append(
            typed(Decision, {key: one for key, one in record.items() if key in known})
        )
    elif kind == "sample":
        cosines = typed(dict[str, float], record.get("cosines"), "cosines")
        segment.samples.append((typed(int, record.get("step"), "step"), cosines))
    elif kind == "closed":
        segment.closed.append(typed(Closed, record))
    elif kind in ("capacity", "assignment"):
        getattr(segment, kind).append(record)
    else:
        segment.end = typed(str, record.get("why"), "why")


KINDS = ("step", "closed", "sample", "decision", "capacity", "assignment", "end")


# Replay of a recorded run: the same thresholds give the same decisions (law L11), other thresholds
# show what they would have decided.
#
# With other thresholds, the recorded signals are still those of the recorded routes. Beyond the
# first decision that differs, the real training is unknown; the replay reports that step.


@dataclass(frozen=True)
class Replayed:
    """Result of a replay: last state and all decisions.

    ``differs`` is the first step whose decisions are not the recorded ones; None if all are equal.
    """

    state: JobState
    decisions: list[Decision]
    differs: int | None


def replay(segment: Segment, plan: Plan | None = None) -> Replayed:
    """Run the state machine over the recorded numbers.

    Args:
        segment: The recorded steps.
        plan: Another plan for the same regions; by default the recorded one.

    Raises:
        MonitorError: The plan has other regions, or a step is missing.
    """
    run = segment.run
    used = plan or run.plan
    names = [one.name for one in run.plan.regions]
    if [one.name for one in used.regions] != names:
        what = f"regions {', '.join(names[:6])} in the log"
        raise MonitorError("replay", f"{what}, others in the plan", "give a profile of that model")
    codec = Codec(used, run.world, 0)
    state = run.state or states.start(used)
    if len(state.regions) != len(names) or len(run.fields) not in codec.lengths:
        what = "the log's state or numbers are of other regions"
        raise MonitorError("replay", what, "the log is damaged, or of another version")
    decisions: list[Decision] = []
    for one in segment.steps:
        if one.step != state.step + 1:
            what = f"step {state.step + 1} is missing before step {one.step}"
            raise MonitorError("replay", what, "a log can be replayed up to there alone")
        state, decided = states.advance(used, state, codec.decode(one.step, one.vector))
        decisions += decided
    differ = [pair for pair in zip_longest(segment.decisions, decisions) if pair[0] != pair[1]]
    steps = (one.step for one in differ[0] if one is not None) if differ else ()
    return Replayed(state, decisions, min(steps, default=None))


# Summaries of a log for the terminal and the HTML report.


_MOST_SHOWN = 40


def last_run(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments of the last training in a log.

    It may have resumed: then records of a segment from the step of the next segment on are removed.
    """
    first = max(n for n, one in enumerate(segments) if n == 0 or one.run.state is None)
    parts = list(segments[first:])
    for part, following in pairwise(parts):
        end = following.run.step
        part.steps = [one for one in part.steps if one.step < end]
        part.decisions = [one for one in part.decisions if one.step < end]
        part.samples = [one for one in part.samples if one[0] < end]
        part.closed = [one for one in part.closed if one.step < end]
    return parts


def lines(segments: Sequence[Segment]) -> list[str]:
    """Return the summary of a log as lines for the terminal."""
    out: list[str] = []
    for segment in segments:
        run, steps = segment.run, segment.steps
        out.append(
            f"{run.profile or 'a run'}: {run.world} ranks, {len(run.plan.regions)} regions "
            f"({len(run.plan.eligible)} may be low-bit), {len(steps)} steps from {run.step}"
        )
        if off := [*map(str, run.plan.off), *loss_off(segment)]:
            out.append(f"  off: {', '.join(off)}")
        if missing := missing_steps(steps):
            out.append(f"  {missing}")
        modes = Counter(one.mode for one in steps)
        out += [f"  {mode:12} {count:7} steps" for mode, count in modes.items()]
        for route, (up, down) in bytes_by_route(steps).items():
            out.append(f"  {route:12} {up:,} bytes sent, {down:,} received")
        if late := Counter(rank for one in segment.closed for rank in one.late):
            often = ", ".join(f"rank {rank} for {count}" for rank, count in sorted(late.items()))
            out.append(f"  {len(segment.closed)} rounds closed without {often}")
        out += [f"  {decision_line(one)}" for one in segment.decisions[:_MOST_SHOWN]]
        if (more := len(segment.decisions) - _MOST_SHOWN) > 0:
            out.append(f"  ... and {more} more decisions: --html shows all")
        out.append(f"  ended: {segment.end}" if segment.end else "  not ended, or cut")
    return out


def missing_steps(steps: Sequence[Step]) -> str:
    """Return a line on the steps without a record between others; "" if there are none."""
    gaps = [(a.step + 1, b.step - 1) for a, b in pairwise(steps) if b.step > a.step + 1]
    if not gaps:
        return ""
    lost = sum(last - first + 1 for first, last in gaps)
    first, last = gaps[0]
    which = f"step {first}" if first == last else f"steps {first} to {last}"
    more = f" and {len(gaps) - 1} more gaps" if len(gaps) > 1 else ""
    return f"steps without a record: {lost} ({which}{more})"


def loss_off(segment: Segment) -> list[str]:
    """Return a text that names the loss signals if no loss was observed, as a list; else []."""
    if any(one.loss is not None for one in segment.steps):
        return []
    names = f"{Reason.LOSS_SPIKE}, {Reason.LOSS_SLOPE} and {Reason.LOSS_DRIFT}"
    return [f"{names} (no loss was observed)"]


def bytes_by_route(steps: Iterable[Step]) -> dict[str, tuple[int, int]]:
    """Return the total (bytes sent, bytes received) of all steps, by route."""
    total: dict[str, tuple[int, int]] = {}
    for one in steps:
        for route, (up, down) in one.bytes.items():
            before = total.get(route, (0, 0))
            total[route] = before[0] + up, before[1] + down
    return total


def decision_line(one: Decision) -> str:
    """Return a decision with step, region, change of state and reason as one line of text."""
    return f"step {one.step:6} {one.region or 'job':12} {one.source} -> {one.target}: {reason(one)}"


def reason(one: Decision) -> str:
    """Return the reason of a decision as text: the signal, its value and the limit."""
    if one.signal == Reason.SCHEDULE:
        return f"{one.value:g} steps, {one.limit:g} were to pass" if one.limit else "its turn"
    if one.signal == Reason.NORM:
        return f"norm {_ratio(one.value)} of FP32's, limit {_ratio(one.limit)}"
    whose = f" of worker {one.worker}" if one.worker >= 0 else ""
    return f"{one.signal} {one.value:.4g}{whose}, limit {one.limit:.4g}"


def _ratio(log2: float) -> str:
    """Return the text of a ratio of norms from its log2; "2^N" if a float would overflow."""
    return f"{2**log2:.3g}" if abs(log2) < 500 else f"2^{log2:.0f}"
