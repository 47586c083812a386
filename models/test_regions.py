# SPDX-License-Identifier: Apache-2.0
"""Tests of every commit code and every cause of a refused access, with their priority."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.access_decode import Access, Cause, Kind, decode_access
from models.commit_check import CommitCode, check_commit
from models.modes import FIRST_EDITION, Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig, planes_kept, record_lines, state_lines

PARAMS = DeviceParams(mem_lines_log2=12)
MEMORY = 4096
BASE = RegionConfig(base=MEMORY * 64, state_base=0, lines_log2=2, workers=4, mode=Mode.G_BINARY)


def code(config: RegionConfig, *others: RegionConfig) -> CommitCode:
    return check_commit(PARAMS, config, others)


@given(st.integers(1, 64), st.integers(1, 8))
def test_planes_hold_every_count(workers: int, cnt_w: int) -> None:
    kept = planes_kept(workers, cnt_w)
    assert min(workers, 2**cnt_w - 1) < 2**kept
    assert kept == 1 or min(workers, 2**cnt_w - 1) >= 2 ** (kept - 1)
    assert record_lines(workers, cnt_w) > kept >= record_lines(workers, cnt_w) // 2


def test_state_area_sizes() -> None:
    assert state_lines(replace(BASE, mode=Mode.IDENTITY), 8) == 256 * 4
    assert state_lines(replace(BASE, mode=Mode.FP32), 8) == 5 * 4
    assert state_lines(BASE, 8) == 4 * 4
    assert state_lines(replace(BASE, mode=Mode.G_TERNARY, workers=64), 8) == 8 * 4


def test_codes_have_the_register_values() -> None:
    assert [c.value for c in CommitCode] == list(range(12))
    assert [c.value for c in Cause] == list(range(9))


@pytest.mark.parametrize("mode", [mode for mode in Mode if not mode.optional])
def test_legal_in_every_mode(mode: Mode) -> None:
    assert code(replace(BASE, mode=mode)) == CommitCode.OK


def line(number: int) -> int:
    return number * 64


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"workers": 0}, CommitCode.WORKERS),
        ({"workers": 65}, CommitCode.WORKERS),
        ({"workers": 64}, CommitCode.OK),
        ({"threshold": 0}, CommitCode.THRESHOLD),
        ({"threshold": 255}, CommitCode.OK),
        ({"lines_log2": 39}, CommitCode.LINES),
        ({"lines_log2": 38}, CommitCode.BASE_ALIGN),
        ({"base": line(MEMORY + 1)}, CommitCode.BASE_ALIGN),
        ({"base": line(MEMORY + 512)}, CommitCode.BASE_ALIGN),
        ({"base": line(MEMORY + 1024)}, CommitCode.OK),
        ({"base": (1 << 52) - line(1024)}, CommitCode.OK),
        ({"base": 0}, CommitCode.WINDOW_MEMORY),
        ({"base": line(MEMORY - 1024)}, CommitCode.WINDOW_MEMORY),
        ({"state_base": line(2)}, CommitCode.STATE_ALIGN),
        ({"state_base": line(4)}, CommitCode.OK),
        ({"state_base": line(MEMORY - 16)}, CommitCode.OK),
        ({"state_base": line(MEMORY - 12)}, CommitCode.STATE_MEMORY),
        ({"state_base": line(MEMORY)}, CommitCode.STATE_MEMORY),
        ({"state_base": (1 << 52) - 64 * 4}, CommitCode.STATE_MEMORY),
        ({"mode": Mode.FP32, "state_base": line(1)}, CommitCode.OK),
        ({"mode": Mode.FP32, "state_base": line(MEMORY - 20)}, CommitCode.OK),
        ({"mode": Mode.FP32, "state_base": line(MEMORY - 19)}, CommitCode.STATE_MEMORY),
        ({"mode": Mode.IDENTITY, "state_base": line(MEMORY - 1024)}, CommitCode.OK),
        ({"mode": Mode.IDENTITY, "state_base": line(MEMORY - 1023)}, CommitCode.STATE_MEMORY),
        ({"mode": Mode.G_INT4, "state_base": line(2)}, CommitCode.STATE_ALIGN),
        ({"mode": Mode.G_INT8, "state_base": line(MEMORY - 12)}, CommitCode.STATE_MEMORY),
        ({"mode": Mode(6)}, CommitCode.MODE),
        ({"mode": Mode(15), "workers": 0, "state_base": line(1)}, CommitCode.MODE),
    ],
)
def test_codes_of_one_region(change: dict[str, int], want: CommitCode) -> None:
    assert code(replace(BASE, **change)) == want  # type: ignore[arg-type]


def test_codes_against_another_region() -> None:
    other = replace(BASE, base=line(MEMORY + 2048), state_base=line(1024), lines_log2=1)
    assert code(BASE, other) == CommitCode.OK
    inside = replace(BASE, base=other.base + line(512), lines_log2=0)
    assert code(inside, other) == CommitCode.OK
    assert code(replace(inside, base=other.base), other) == CommitCode.WINDOW_OVERLAP
    around = replace(BASE, base=line(MEMORY), lines_log2=4)
    assert code(around, other) == CommitCode.WINDOW_OVERLAP
    last = other.state_base + line(7)
    assert code(replace(BASE, mode=Mode.FP32, state_base=last), other) == CommitCode.STATE_OVERLAP
    after = replace(BASE, mode=Mode.FP32, state_base=last + line(1))
    assert code(after, other) == CommitCode.OK
    before = replace(after, state_base=other.state_base - line(20))
    assert code(before, other) == CommitCode.OK
    assert code(replace(before, workers=5), other) == CommitCode.STATE_OVERLAP


def test_the_lowest_code_wins() -> None:
    other = BASE
    bad = replace(BASE, workers=0, threshold=0, lines_log2=39, base=64, state_base=64 * 4095)
    steps = [
        ({"workers": 4}, CommitCode.THRESHOLD),
        ({"threshold": 1}, CommitCode.LINES),
        ({"lines_log2": 2}, CommitCode.BASE_ALIGN),
        ({"base": 0}, CommitCode.WINDOW_MEMORY),
        ({"base": other.base}, CommitCode.WINDOW_OVERLAP),
        ({"base": other.base + line(1024)}, CommitCode.STATE_ALIGN),
        ({"state_base": line(4092)}, CommitCode.STATE_MEMORY),
        ({"state_base": line(0)}, CommitCode.STATE_OVERLAP),
        ({"state_base": line(16)}, CommitCode.OK),
    ]
    assert code(bad, other) == CommitCode.WORKERS
    for change, want in steps:
        bad = replace(bad, **change)  # type: ignore[arg-type]
        assert code(bad, other) == want


@pytest.mark.parametrize("mode", [Mode.G_INT4, Mode.G_INT8])
def test_sums_need_planes(mode: Mode) -> None:
    """Check that a commit of an integer mode is refused if CNT_W is too small for the workers.

    CNT_W bits are enough for 2^CNT_W - 1 workers. G_BINARY is accepted: its counters may saturate.
    """
    small = DeviceParams(mem_lines_log2=12, cnt_w=3)
    seven, eight = replace(BASE, mode=mode, workers=7), replace(BASE, mode=mode, workers=8)
    assert check_commit(small, seven, ()) == CommitCode.OK
    assert check_commit(small, eight, ()) == CommitCode.PLANES
    assert check_commit(small, replace(eight, threshold=0), ()) == CommitCode.THRESHOLD
    assert check_commit(small, replace(eight, mode=Mode.G_BINARY), ()) == CommitCode.OK
    assert code(replace(eight, workers=64, state_base=0)) == CommitCode.OK


def test_reserved_modes_are_numbers_without_a_mode() -> None:
    """Check that codes 7 to 15 are reserved modes, which registers can hold and iteration omits."""
    reserved = [Mode(value) for value in range(7, 16)]
    assert all(mode.reserved and not mode.low_bit for mode in reserved)
    assert not {*reserved} & {*Mode}
    assert not any(mode.reserved for mode in Mode)
    config = replace(BASE, mode=Mode(9))
    assert RegionConfig.from_registers(config.register_values()) == config


@pytest.mark.parametrize(
    "change",
    [
        {"base": 32},
        {"state_base": -64},
        {"base": 1 << 52},
        {"lines_log2": 64},
        {"workers": 256},
        {"threshold": 256},
        {"ld_mask": 1 << 16},
        {"mode": 16},
        {"bind_shift": 3},
    ],
)
def test_values_beyond_the_registers(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be|does not fit|not a valid|bind_shift is"):
        replace(BASE, **change)  # type: ignore[arg-type]


def test_parameters_are_checked() -> None:
    for bad in ({"cnt_w": 0}, {"cnt_w": 9}, {"regions": 0}, {"mem_lines_log2": 47}):
        with pytest.raises(ValueError, match=r"cnt_w is|at least one|mem_lines_log2 is"):
            DeviceParams(**bad)
    assert DeviceParams(cnt_w=3).cnt_max == 7


# -- decoding -------------------------------------------------------------------------------------


def read(addr: int, ldid: int = 0, opcode: int = ReqOp.MEM_RD) -> M2SReq:
    return M2SReq(opcode, 1, addr, ldid)


def write(addr: int, ldid: int = 0, opcode: int = RwdOp.MEM_WR) -> M2SRwD:
    return M2SRwD(opcode, 1, addr, ldid)


def decode(msg: M2SMessage, config: RegionConfig = BASE, illegal: bool = False) -> Access:
    return decode_access(msg, PARAMS, [None, config], illegal)


def test_selectors_per_mode() -> None:
    kinds = {}
    for mode in FIRST_EDITION:
        config = replace(BASE, mode=mode)
        for selector in range(256):
            line = 0 if selector in (2, 6) else 3
            at = config.address(selector, line)
            kinds[mode, False, selector] = decode(read(at), config).kind
            access = decode(write(at), config)
            kinds[mode, True, selector] = access.kind
            assert (access.region, access.selector, access.line) == (1, selector, line)

    found: dict[tuple[Mode, bool, Kind], list[int]] = {}
    for (mode, is_write, selector), kind in kinds.items():
        found.setdefault((mode, is_write, kind), []).append(selector)
    for mode in FIRST_EDITION[1:]:
        votes = mode != Mode.FP32
        assert found[mode, False, Kind.INFO] == [1]
        assert found[mode, False, Kind.STATUS] == [2, 6]  # at line 0 alone
        assert found[mode, False, Kind.RESULT] == [0]
        assert found.get((mode, False, Kind.PLANE), []) == ([*range(8, 16)] if votes else [])
        assert found.get((mode, False, Kind.RAW), []) == ([] if votes else [64, 65, 66, 67])
        assert found[mode, True, Kind.CONTRIBUTION] == [0, 1, 2, 3]
        assert len(found[mode, True, Kind.REFUSED]) == 252
    for is_write in (False, True):
        assert found[Mode.IDENTITY, is_write, Kind.IDENTITY] == list(range(256))


def test_each_cause() -> None:
    bound = replace(BASE, bind=True, ld_mask=0x0F, state_base=line(8))
    inside = BASE.address(1, 0)
    beyond = line(MEMORY)  # BASE's window begins here; another address is unmapped
    assert decode(write(inside, opcode=0)).cause == Cause.UNSUPPORTED
    assert decode(write(inside), illegal=True).cause == Cause.UNSUPPORTED
    for opcode in (ReqOp.MEM_RD_FWD, ReqOp.MEM_WR_FWD, 5, 15):
        assert decode(read(inside, opcode=opcode)).cause == Cause.UNSUPPORTED
    assert decode(read(beyond + line(1024))).cause == Cause.UNMAPPED
    assert decode(read((1 << 52) - 64)).cause == Cause.UNMAPPED
    assert decode(read(line(8)), bound).cause == Cause.STATE_AREA
    assert decode(write(line(23)), bound).cause == Cause.STATE_AREA
    assert decode(read(line(24)), bound).kind == Kind.MEMORY
    assert decode(read(line(7)), bound).kind == Kind.MEMORY
    assert decode(write(inside, ldid=4), bound).cause == Cause.LD_MASK
    assert decode(read(bound.address(0, 0), ldid=4), bound).cause == Cause.LD_MASK
    assert decode(read(bound.address(7, 0)), bound).cause == Cause.SELECTOR
    assert decode(read(bound.address(2, 1)), bound).cause == Cause.SELECTOR
    partial = write(inside, ldid=1, opcode=RwdOp.MEM_WR_PTL)
    assert decode(partial, bound).cause == Cause.PARTIAL
    assert decode(write(inside, ldid=0), bound).cause == Cause.BIND
    assert decode(write(inside, ldid=1), bound).kind == Kind.CONTRIBUTION


def test_the_lowest_cause_wins() -> None:
    config = replace(BASE, bind=True, ld_mask=0x0002)
    bad = config.address(200, 0)
    good = config.address(0, 0)
    ptl = RwdOp.MEM_WR_PTL
    assert decode(write(bad, 0, opcode=7), config).cause == Cause.UNSUPPORTED
    assert decode(write(bad, 0, opcode=ptl), config).cause == Cause.LD_MASK
    assert decode(write(bad, 1, opcode=ptl), config).cause == Cause.SELECTOR
    assert decode(write(good, 1, opcode=ptl), config).cause == Cause.PARTIAL
    assert decode(write(good, 1), config).cause == Cause.BIND


def test_mask_does_not_cover_ordinary_memory() -> None:
    assert decode(read(line(100), 9), replace(BASE, ld_mask=0)).kind == Kind.MEMORY


def test_address_bit_5_is_ignored() -> None:
    assert decode(read(BASE.address(8, 2) + 32)) == decode(read(BASE.address(8, 2)))


def test_addresses_outside_the_window_are_refused() -> None:
    with pytest.raises(ValueError, match="no such place"):
        BASE.address(256, 0)
    with pytest.raises(ValueError, match="no such place"):
        BASE.address(0, 4)


@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("mode", [Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY])
def test_bind_shift(mode: Mode, shift: int) -> None:
    """Check that BIND allows worker w only to LD-ID w >> BIND_SHIFT (second edition, 6)."""
    config = replace(BASE, mode=mode, workers=64, lines_log2=0, bind=True, bind_shift=shift)
    for worker in range(64):
        for ldid in range(16):
            access = decode(write(config.address(worker, 0), ldid), config)
            assert (access.cause == Cause.NONE) == (ldid == worker >> shift)
            assert decode(read(config.address(0, 0), ldid), config).cause == Cause.NONE
