# SPDX-License-Identifier: Apache-2.0
"""Writes the runs of one command into the history. When the history cannot be written, the command
goes on without it: a line says so, and no run is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from neuron_fabric.text import say
from scripts.common.errors import NfError
from scripts.common.records import RunRecord, RunSpec
from scripts.record.database import History

_BEFORE = 30  # commands that a report looks back on


class Recorder:
    """Writes the runs of one command. A history that cannot be written costs one line, no run."""

    def __init__(
        self,
        title: str,
        specs: Iterable[RunSpec],
        command: str = "",
        revision: str = "",
        fingerprints: Mapping[str, str] | None = None,
    ) -> None:
        self.specs = {spec.id: spec for spec in specs}
        self.fingerprints = fingerprints or {}
        self.ids: dict[str, int] = {}  # run's number in the history, by record id
        self._history: History | None = None
        self._invocation = 0
        self._title = title
        with self._going_on():
            self._history = History()
            self._invocation = self._history.begin(title, len(self.specs), command, revision)

    @property
    def number(self) -> int:
        """The number of the command in the history; 0 where that could not be written."""
        return self._invocation if self._history is not None else 0

    def add(self, record: RunRecord) -> None:
        """Write a record that came."""
        spec = self.specs.get(record.id)
        if self._history is None or spec is None:
            return
        fingerprint = self.fingerprints.get(record.id, "")
        with self._going_on():
            self.ids[record.id] = self._history.add(self._invocation, spec, record, fingerprint)

    def before(self) -> list[dict[str, Any]] | None:
        """Facts of the commands of the same title before this one, oldest first; None without a
        history."""
        if self._history is not None:
            with self._going_on():
                found = self._history.invocations(_BEFORE, self._title)
                return [one.facts for one in reversed(found) if one.facts]
        return None

    def close(self, facts: Mapping[str, Any] | None = None) -> None:
        """The command ends; `facts` are for `before` of the next one."""
        if self._history is not None:
            with self._going_on():
                self._history.finish(self._invocation, facts)
                self._history.close()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """An error of the history is told, and ends the recording alone."""
        try:
            yield
        except NfError as error:
            say(f"nf: {error} This run is not recorded there.", file=sys.stderr, flush=True)
            if self._history is not None:
                self._history.close()
            self._history = None
