# SPDX-License-Identifier: Apache-2.0
"""Check that seeded runs of the memory agent leave what they left when they were stored."""

import pytest

from verif.mem import trace_bench

STORED = trace_bench.stored()


@pytest.mark.parametrize("seed", range(trace_bench.RUNS))
def test_trace(seed: int) -> None:
    """Compare pins, beats, findings and content of the memory; see `trace_bench.trace`."""
    assert trace_bench.trace(seed) == STORED[seed]
