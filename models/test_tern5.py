# SPDX-License-Identifier: Apache-2.0
"""Tests of G_TERN5 against plain Python integers: bytes, commits and the device model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.commit_check import CommitCode, check_commit
from models.device import DeviceModel
from models.line_packing import (
    pack_tern5,
    pack_ternary,
    trits_to_lines,
    unpack_tern5,
    unpack_ternary,
)
from models.modes import GATED, Mode, lines_needed
from models.parameters import DeviceParams
from models.regions import RegionConfig, planes_kept, record_lines, state_lines
from models.votes import planes_to_counts, reduce_tern5

MEMORY = 1 << 12
HAS_IT = DeviceParams(mem_lines_log2=12, tern5=1)
BASE = RegionConfig(base=MEMORY * 64, state_base=0, lines_log2=2, workers=4, mode=Mode.G_TERN5)
MEANING = {0: 0, 1: 1, 2: -1}


def elements_of(byte: int) -> list[int]:
    """Return the five elements in a byte of G_TERN5, by repeated division; zeros if illegal."""
    legal, out = byte if byte < 243 else 0, []
    for _ in range(5):
        out.append(MEANING[legal % 3])
        legal //= 3
    return out


def test_every_byte() -> None:
    lines = np.arange(256, dtype=np.uint8).reshape(4, 64)
    got = unpack_tern5(lines).reshape(256, 5)
    for byte in range(256):
        assert list(got[byte]) == elements_of(byte)
    legal = trits_to_lines(got[:243])  # the inverse, but for the padding
    assert list(legal.reshape(-1)[:243]) == list(range(243))
    assert not legal.reshape(-1)[243:].any()


@given(st.lists(st.sampled_from([-1, 0, 1]), max_size=700))
def test_elements_come_back(trits: list[int]) -> None:
    lines = trits_to_lines(trits)
    assert len(lines) == lines_needed(len(trits), Mode.G_TERN5)
    assert unpack_tern5(lines, len(trits)).tolist() == trits
    assert not unpack_tern5(lines)[len(trits) :].any()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=700),
    st.floats(0, 4, width=32),
)
def test_packs_what_g_ternary_packs(x: list[float], threshold: float) -> None:
    values = np.array(x, np.float32)
    one = unpack_tern5(pack_tern5(values, threshold), len(x))
    assert (one == unpack_ternary(pack_ternary(values, threshold), len(x))).all()


@pytest.mark.parametrize(("workers", "planes", "record"), [(1, 2, 4), (3, 3, 4), (4, 4, 8),
                                                           (63, 7, 8), (64, 8, 16)])  # fmt: skip
def test_records_follow_twice_the_workers(workers: int, planes: int, record: int) -> None:
    config = replace(BASE, workers=workers)
    assert planes_kept(config.most, 8) == planes
    assert record_lines(config.most, 8) == record
    assert state_lines(config, 8) == 4 * record


def test_commits() -> None:
    def code(config: RegionConfig, params: DeviceParams = HAS_IT) -> CommitCode:
        return check_commit(params, config, ())

    assert code(BASE, DeviceParams(mem_lines_log2=12)) == CommitCode.MODE
    assert code(replace(BASE, workers=0), DeviceParams(mem_lines_log2=12)) == CommitCode.MODE
    assert code(BASE) == CommitCode.OK
    assert code(replace(BASE, workers=64)) == CommitCode.OK
    assert code(replace(BASE, workers=64, state_base=8 * 64)) == CommitCode.STATE_ALIGN
    narrow = replace(HAS_IT, cnt_w=4)  # a counter holds 15, of two a worker
    assert code(replace(BASE, workers=7), narrow) == CommitCode.OK
    assert code(replace(BASE, workers=8), narrow) == CommitCode.PLANES
    assert code(replace(BASE, mode=Mode(7))) == CommitCode.MODE
    with pytest.raises(ValueError, match="tern5 is"):
        DeviceParams(tern5=2)


def test_device() -> None:
    """Check votes, count planes and counters of a G_TERN5 region of two workers.

    One of them sends twice and has an illegal byte, which counts as five illegal elements.
    """
    device = DeviceModel(HAS_IT)
    config = replace(BASE, workers=2)
    assert device.commit(0, config, 1) == CommitCode.OK
    sent = [trits_to_lines([1, 1, -1, 0, -1] * 64)[0], trits_to_lines([1, -1, -1, 0, 0] * 64)[0]]
    sent[1][63] = 255
    for worker in (0, 1, 1):
        write = M2SRwD(RwdOp.MEM_WR, 1, config.address(worker, 0), 0, data=sent[worker].tobytes())
        device.step(write)

    def read(selector: int) -> bytes:
        answer = device.step(M2SReq(ReqOp.MEM_RD, 1, config.address(selector, 0), 0))
        assert isinstance(answer, S2MDRS)
        assert not answer.poison
        return answer.data

    votes = unpack_tern5(np.frombuffer(read(0), np.uint8)[None])
    assert votes[:5].tolist() == [1, 0, -1, 0, -1]
    assert votes[315:].tolist() == [1, 1, -1, 0, -1]  # the illegal byte has no vote
    planes = np.stack([np.frombuffer(read(8 + p), np.uint8)[None] for p in range(8)])
    assert planes_to_counts(planes)[0, :5].tolist() == [4, 2, 0, 2, 1]
    counters = device.counters
    assert (counters["ILLEGAL_CODE"], counters["DUPLICATE"]) == (5, 1)


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold"):
        reduce_tern5(np.zeros((1, 1, 64), np.uint8), threshold=0)
    with pytest.raises(ValueError, match="-1, 0 or"):
        trits_to_lines([2])
    with pytest.raises(ValueError, match="lines must be"):
        unpack_tern5(np.zeros((1, 63), np.uint8))
    with pytest.raises(ValueError, match="no sign vote"):
        pack_tern5([float("nan")], 0)
    assert Mode.G_TERN5 in GATED
    assert Mode.G_TERN5.optional
