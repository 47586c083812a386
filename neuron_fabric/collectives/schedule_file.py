# SPDX-License-Identifier: Apache-2.0
"""JSON form of a schedule: the fields of `Schedule`, and operations with their name in `op`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from neuron_fabric.collectives.checker import ScheduleError
from neuron_fabric.collectives.schedule import Op, Schedule, Stream
from neuron_fabric.data import DataError, as_object, read_object
from neuron_fabric.typed import typed

FORMAT = "neuron-fabric-schedule-1"
_KINDS: dict[str, type[Op]] = {kind.__name__.lower(): kind for kind in get_args(Op)}


def to_text(schedule: Schedule) -> str:
    """Return the JSON text of a schedule; `read` gives an equal one."""
    value = {"format": FORMAT, **asdict(schedule)}
    value["streams"] = [[_stream(stream) for stream in streams] for streams in schedule.streams]
    return json.dumps(value, indent=1) + "\n"


def _stream(stream: Stream) -> dict[str, Any]:
    ops = [{"op": type(op).__name__.lower(), **asdict(op)} for op in stream.ops]
    return {"name": stream.name, "ops": ops}


def read(path: Path) -> Schedule:
    """Return the schedule of a JSON file.

    Args:
        path: The file.

    Returns:
        The schedule, which has the right types only; `checker.check` checks it.

    Raises:
        ScheduleError: The file cannot be read or is no schedule; the error names the field.
    """
    try:
        value = read_object(path)
        if value.pop("format", None) != FORMAT:
            raise DataError(f"format is not {FORMAT}")
        streams = typed(list[list[dict[str, Any]]], value.get("streams"), "streams")
        made = tuple(
            tuple(_read_stream(one, f"streams[{rank}][{n}]") for n, one in enumerate(several))
            for rank, several in enumerate(streams)
        )
        header = typed(Schedule, {**value, "streams": []})
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise ScheduleError(path, reason, "name a schedule in JSON") from None
    except DataError as error:
        raise ScheduleError(path, error, "see `nf collectives show --json`") from None
    return Schedule(**{**vars(header), "streams": made})


def _read_stream(value: dict[str, Any], place: str) -> Stream:
    ops = typed(list[Any], value.get("ops"), f"{place}.ops")
    made = tuple(_read_op(one, f"{place}.ops[{n}]") for n, one in enumerate(ops))
    name = typed(Stream, {**value, "ops": []}, place).name
    return Stream(name, made)


def _read_op(value: Any, place: str) -> Op:
    fields = dict(as_object(value))
    kind = _KINDS.get(str(fields.pop("op", "")))
    if kind is None:
        raise DataError(f"{place}.op is not one of {', '.join(_KINDS)}")
    return typed(kind, fields, place)
