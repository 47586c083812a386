# SPDX-License-Identifier: Apache-2.0
"""Bulk transport: epochs as blocks through the C++ host, and what is done about a wrong one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from neuron_fabric.output import write_text
from verif.coverage.bins import FUNCTIONAL
from verif.coverage.functional_coverage import NfCoverage
from verif.host.bulk_device import BulkDevice, BulkFault, BulkModel
from verif.replay.bulk.epoch_block import EpochBlock
from verif.replay.bulk.narrow import epoch_operations, narrow
from verif.replay.bulk.pipeline import EpochFault, stream
from verif.replay.bulk.sample import sample, sample_memory
from verif.replay.check import Mismatch, reduced_by_words
from verif.replay.epoch import Key
from verif.replay.stimulus import Stimulus
from verif.replay.transport import Driven, ReplayStop, Transport

STIMULUS_FILE = "stimulus.json"
METRICS_FILE = "metrics.json"
"""Functional coverage, as a test of the runner leaves it."""


@dataclass
class BulkTransport(Transport):
    """The C++ host and the device that ``model`` opens."""

    model: BulkModel
    coverage: NfCoverage = field(default_factory=NfCoverage)
    _last: EpochBlock | None = None

    def __post_init__(self) -> None:
        self.reduce = reduced_by_words
        self.build_seconds = self.model.build_seconds

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """See Transport."""
        options = self.replay.options
        blocks = (EpochBlock.of(self.replay.epoch(key), options.seed) for key in keys)
        try:
            device = self._fresh()
            try:
                with closing(stream(device, blocks)) as done:
                    for block, cycles in done:
                        self._last = block
                        yield Driven(block.work, block.figures(cycles), block.problems())
                        sample(self.coverage, block)
                sample_memory(self.coverage, device.figures())
            finally:
                device.close()
        except EpochFault as fault:
            note = _one_line(fault)
            operations = epoch_operations(fault.block)
            self._leave(Stimulus(note, options.parameters, options.seed, operations))
            raise ReplayStop(note) from None
        except BulkFault as fault:  # before the first epoch
            raise ReplayStop(_one_line(fault)) from None

    def _fresh(self) -> BulkDevice:
        options = self.replay.options
        return self.model.open(self.folder, options.device.mem_lines_log2, options.seed)

    def stop(self, driven: Driven, found: Mismatch | None) -> None:
        """See Transport: says which worker it was, leaves a stimulus, and stops."""
        if found is None:
            raise ReplayStop("; ".join(driven.problems[:3]))
        assert self._last is not None
        finding = narrow(found, self._last, self._fresh, self.replay.options)
        if finding.stimulus is not None:
            self._leave(finding.stimulus)
        raise ReplayStop(f"{found.text}; {finding.text}")

    def _leave(self, stimulus: Stimulus) -> None:
        """Write a stimulus, and remember the command that drives it."""
        path = self.folder / STIMULUS_FILE
        stimulus.write(path)
        words = [".venv/bin/nf", "replay", "--stimulus", str(path), "--sim", self.simulator]
        self.hints.append(f"at signal level: {shlex.join(words)} --waves")

    def finish(self) -> None:
        """See Transport; leaves the functional coverage."""
        metrics = {FUNCTIONAL: self.coverage.model.hits()}
        write_text(self.folder / METRICS_FILE, json.dumps(metrics, indent=1))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
