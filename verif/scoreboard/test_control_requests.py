# SPDX-License-Identifier: Apache-2.0
"""Tests of the scoreboard with accesses through the control window: right responses pass, each
wrong one is reported.
"""

from dataclasses import replace

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, DrsOp, M2SReq, M2SRwD, NdrOp, ReqOp, RwdOp
from models.commit_check import CommitCode
from models.control_window import REGION_LINE, pack_line
from models.device import DeviceModel
from models.info_status_lines import LineInfo, pack_words
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.scoreboard import Scoreboard

BASE = 1 << 40
HW = DeviceParams(regions=2)
CONFIG = RegionConfig(1 << 41, 0, 1, 3, Mode.G_BINARY)
MANAGER = 9


class Bus(PredictorBench):
    """Both ways to the registers (AXI4-Lite and the control window); the test gives the
    responses.
    """

    def __init__(self) -> None:
        super().__init__(Scoreboard(DeviceModel(HW), HW.regions), HW)
        self.tag = 0
        self.write("CTRL_LD_MASK", 1 << MANAGER)
        self.write("CTRL_WINDOW_HI", BASE >> 32)
        self.write("CTRL_WINDOW_LO", BASE & 0xFFFF_FFFF)
        assert self.scoreboard.model.control.base == BASE

    def send(self, words: dict[str, int], ldid: int = MANAGER, poison: bool = False) -> M2SRwD:
        """Send a write of registers through the window, without a response yet; return its message.

        Args:
            words: Value by name of the register; all in one line of the window.
            ldid: LD-ID that writes; MANAGER may write every register.
            poison: Whether the data are poisoned.
        """
        self.tag += 1
        data, be = pack_line({self.address(name): value for name, value in words.items()})
        addr = BASE + self.address(next(iter(words))) // 64 * 64
        message = M2SRwD(
            RwdOp.MEM_WR_PTL, self.tag, addr, ldid=ldid, data=data, be=be, poison=poison
        )
        self.scoreboard.request(message)
        return message

    def answer(self, message: M2SRwD) -> None:
        self.scoreboard.response(S2MNDR(NdrOp.CMP, message.tag, ldid=message.ldid))

    def snapshot(self, line: int, words: list[int]) -> None:
        """Read a line of the control window, with a response that holds these words."""
        self.line(BASE + 64 * line, pack_words(words))

    def line(self, addr: int, data: bytes, poison: bool = False) -> None:
        """Read a line, with a response of this data."""
        self.tag += 1
        self.scoreboard.request(M2SReq(ReqOp.MEM_RD, self.tag, addr, ldid=1))
        got = S2MDRS(DrsOp.MEM_DATA, self.tag, ldid=1, data=data, poison=poison)
        self.scoreboard.response(got)

    def info(self, epoch: int, generation: int, closed: bool = False) -> None:
        """Read INFO of line 0 in region 1, untouched: the response has these figures."""
        untouched = LineInfo(epoch, generation, 0, 0, *[False] * 5)
        self.line(CONFIG.address(1, 0), replace(untouched, closed=closed).pack())

    def vote(self, poison: bool) -> None:
        """Read the result of line 0 in region 1, untouched: a tie in each element; `poison`: of the
        response.
        """
        self.line(CONFIG.address(0, 0), bytes(64), poison)

    def commit(self, epoch: int, config: RegionConfig = CONFIG) -> M2SRwD:
        values = {**config.register_values(), "EPOCH": epoch}
        return self.send({f"REGION[1].{leaf}": word for leaf, word in values.items()})


def region_line(config: RegionConfig, epoch: int, status: int) -> list[int]:
    return [*config.register_values().values(), epoch, status, 0, 0, 0, 0, 0]


def test_a_commit_of_one_line() -> None:
    bus = Bus()
    message = bus.commit(7)
    bus.snapshot(REGION_LINE + 1, region_line(CONFIG, 0, 0))  # not decided yet
    bus.answer(message)
    assert bus.scoreboard.configs[1] == CONFIG
    assert bus.scoreboard.epochs[1] == 7
    bus.snapshot(REGION_LINE + 1, region_line(CONFIG, 7, 1))
    bus.read("REGION[1].EPOCH", 7)
    assert bus.errors == ""


@pytest.mark.parametrize(
    ("word", "value"), [(0, 64), (5, 4), (9, 8), (10, 0), (13, 0x100), (15, 1)]
)
def test_wrong_word_of_a_snapshot(word: int, value: int) -> None:
    bus = Bus()
    bus.answer(bus.commit(7))
    line = region_line(CONFIG, 7, 1)
    line[word] = value
    bus.snapshot(REGION_LINE + 1, line)
    assert "REG" in bus.errors


def test_the_last_of_two_commits() -> None:
    bus = Bus()
    first, second = bus.commit(1), bus.commit(2, replace(CONFIG, strict=True))
    bus.answer(first)
    bus.answer(second)
    assert bus.scoreboard.epochs[1] == 2
    bus.read("REGION[1].EPOCH", 2)
    assert bus.errors == ""
    bus.read("REGION[1].EPOCH", 1)
    assert "epoch is 1" in bus.errors


@pytest.mark.parametrize("refused", [{"ldid": 3}, {"poison": True}])
def test_refused_write_changes_nothing(refused: dict[str, int]) -> None:
    bus = Bus()
    bus.answer(bus.send({"IRQ_ENABLE": 0x15}, **refused))  # type: ignore[arg-type]
    bus.read("IRQ_ENABLE", 0)
    assert bus.errors == ""
    assert bus.scoreboard.model.counters["REFUSED"] == 1
    bus.read("IRQ_ENABLE", 0x15)
    assert "IRQ_ENABLE" in bus.errors


def test_registers_that_keep_still() -> None:
    bus = Bus()
    bus.answer(bus.send({"CTRL_LD_MASK": 0xFFFF, "CTRL_WINDOW_LO": 0}))
    assert bus.scoreboard.model.control.base == BASE
    bus.read("CTRL_LD_MASK", 1 << MANAGER)
    assert bus.errors == ""


def test_racing_writes_until_a_read_tells() -> None:
    bus = Bus()
    message = bus.send({"REGION[0].WORKERS": 5})
    bus.write("REGION[0].WORKERS", 6)
    bus.answer(message)
    bus.read("REGION[0].WORKERS", 5)
    assert bus.errors == ""
    bus.read("REGION[0].WORKERS", 6)
    assert "WORKERS" in bus.errors


def test_a_commit_of_nobody_knows_what() -> None:
    bus = Bus()
    message = bus.send({"REGION[0].WORKERS": 5})
    bus.write("REGION[0].WORKERS", 6)
    bus.answer(message)
    bus.write("REGION[0].EPOCH", 1)
    assert "bench: commit" in bus.errors


STRICT = replace(CONFIG, strict=True)


def race(axil_first: bool, last: str, spoil: str = "") -> Bus:
    """Let two commits of region 1 race, with reads in between and one of EPOCH after both.

    One commits epoch 5 with descriptor STRICT through the window, the other epoch 6 by AXI4-Lite.

    Args:
        axil_first: Whether the access by AXI4-Lite begins first.
        last: Commit that takes effect last: "window" or the other one.
        spoil: Fault of the device: "epoch" or "descriptor" are of the wrong commit, "neither" lets
            EPOCH read a value that none wrote; "" for none.

    Returns:
        The registers and scoreboard after it.
    """
    bus = Bus()
    bus.answer(bus.commit(4))
    axil = AxiLiteAccess(True, bus.address("REGION[1].EPOCH"), 6, 0xF)
    if axil_first:
        bus.predictor.begin(axil)
    message = bus.commit(5, STRICT)
    if not axil_first:
        bus.predictor.begin(axil)
    first, final = (6, 5) if last == "window" else (5, 6)
    between = final if spoil == "epoch" else first
    strict = (last != "window") != (spoil == "descriptor")
    bus.info(between, 2)
    bus.vote(poison=strict)
    bus.info(between, 2)
    bus.predictor.end(axil)
    bus.answer(message)
    bus.read("REGION[1].EPOCH", 4 if spoil == "neither" else final)
    bus.info(final, 3)
    bus.vote(poison=True)  # of nobody yet, in a STRICT region
    return bus


@pytest.mark.parametrize("axil_first", [False, True])
@pytest.mark.parametrize("last", ["window", "axil"])
@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ("", ""),
        ("epoch", "MISMATCH"),
        ("descriptor", "MISMATCH"),
        ("neither", "which neither commit wrote"),
    ],
)
def test_two_commits_at_once(axil_first: bool, last: str, spoil: str, text: str) -> None:
    """Check that either of two racing commits may be the last, if all responses agree with that
    order.

    Mixes of both orders are reported: of epoch, of descriptor, or a value of EPOCH that neither
    wrote.
    """
    bus = race(axil_first, last, spoil)
    assert text in bus.errors
    if not spoil:
        assert bus.errors == ""
        assert bus.scoreboard.configs[1] == STRICT
        assert bus.scoreboard.epochs[1] == (5 if last == "window" else 6)
        assert bus.scoreboard.model.config(1) == STRICT


def test_commits_of_which_nobody_can_tell_the_order() -> None:
    for epochs in ((5, 5), (5, 6, 7)):
        bus = Bus()
        for epoch in epochs[1:]:
            bus.commit(epoch)
        bus.write("REGION[1].EPOCH", epochs[0])
        assert "bench: the order of the commits of region 1" in bus.errors


def test_a_race_that_no_read_has_told() -> None:
    bus = Bus()
    message = bus.commit(5)
    bus.write("REGION[1].EPOCH", 6)
    bus.answer(message)
    bus.predictor.finish()
    assert "no read has told" in bus.errors


def close_race(window_closes: bool, axil_first: bool, last: str, spoil: str = "") -> Bus:
    """Let a close and a commit of epoch 5 of region 1 race, one by AXI4-Lite and one through the
    window.

    Reads come in between, and one of STATUS after both.

    Args:
        window_closes: Whether the close is the one through the window.
        axil_first: Whether the access by AXI4-Lite begins first.
        last: Access that takes effect last: "commit" or "close".
        spoil: Fault of the device: CLOSED of the other order, in the reads "between" or at the
            "end"; "" for none.
    """
    bus = Bus()
    bus.answer(bus.commit(4, STRICT))
    leaf, value = ("EPOCH", 5) if window_closes else ("CTRL", 1)
    axil = AxiLiteAccess(True, bus.address(f"REGION[1].{leaf}"), value, 0xF)
    if axil_first:
        bus.predictor.begin(axil)
    message = bus.send({"REGION[1].CTRL": 1}) if window_closes else bus.commit(5, STRICT)
    if not axil_first:
        bus.predictor.begin(axil)
    closed = last == "commit" or spoil == "between"
    bus.vote(poison=not closed)
    bus.info(*((5, 2) if (last == "close") != (spoil == "between") else (4, 1)), closed)
    bus.predictor.end(axil)
    bus.answer(message)
    bus.read("REGION[1].EPOCH", 5)  # tells nothing: it is 5 in either order
    end = last == "close"
    bus.read("REGION[1].STATUS", 1 | (end != (spoil == "end")) * 0x1100)
    bus.vote(poison=not end)
    bus.info(5, 2, end)
    return bus


@pytest.mark.parametrize("window_closes", [False, True])
@pytest.mark.parametrize("axil_first", [False, True])
@pytest.mark.parametrize("last", ["close", "commit"])
@pytest.mark.parametrize("spoil", ["", "between", "end"])
def test_a_close_and_a_commit_at_once(
    window_closes: bool, axil_first: bool, last: str, spoil: str
) -> None:
    """Check that either of a racing close and commit may be the last, if all responses agree with
    it.

    A value of CLOSED in between, or at the end, that only the other order gives is reported.
    """
    bus = close_race(window_closes, axil_first, last, spoil)
    if spoil:
        assert "MISMATCH" in bus.errors
        return
    assert bus.errors == ""
    assert bus.scoreboard.epochs[1] == 5
    assert bus.scoreboard.model.region_status(1).closed == (last == "close")


@pytest.mark.parametrize(
    ("place", "code"),
    [(64, CommitCode.BASE_ALIGN), (4096, CommitCode.WINDOW_MEMORY), (1 << 50, CommitCode.OK)],
)
def test_moves(place: int, code: CommitCode) -> None:
    bus = Bus()
    bus.write("CTRL_WINDOW_HI", place >> 32)
    bus.write("CTRL_WINDOW_LO", place & 0xFFFF_FFFF)
    at = place if code is CommitCode.OK else BASE
    assert bus.scoreboard.model.control.base == at
    bus.read("CTRL_WINDOW_LO", at & 0xFFFF_FFFF | code)
    assert bus.errors == ""
    bus.read("CTRL_WINDOW_LO", at & 0xFFFF_FFFF | 9)
    assert "CTRL_WINDOW_LO" in bus.errors


def ones(tag: int) -> S2MDRS:
    return S2MDRS(DrsOp.MEM_DATA, tag, ldid=1, data=b"\xff" * 64, poison=True)


@pytest.mark.parametrize("met", ["window", "nothing", "neither"])
def test_a_read_while_the_window_moves(met: str) -> None:
    bus = Bus()
    bus.write("CTRL_WINDOW_HI", 2 << 8)
    move = AxiLiteAccess(True, bus.address("CTRL_WINDOW_LO"), 0, 0xF)
    bus.predictor.begin(move)
    bus.scoreboard.request(M2SReq(ReqOp.MEM_RD, 77, BASE + 63 * 64, ldid=1))
    clean = replace(ones(77), data=bytes(64), poison=False)
    answers = {"window": clean, "nothing": ones(77), "neither": replace(ones(77), poison=False)}
    if met == "neither":  # data of registers do not come poisoned
        answers["neither"] = replace(clean, poison=True)
    bus.scoreboard.response(answers[met])
    bus.predictor.end(move)
    assert ("MISMATCH" in bus.errors) == (met == "neither")
    assert bus.scoreboard.model.control.base == 2 << 40
    open_ = met != "neither"
    assert bus.scoreboard.judge.judged == open_
    for name in ("REFUSED", "UNMAPPED"):
        assert bus.scoreboard.counter_range(name) == (0, open_)
    assert bus.read("ERR_INFO", 1) is open_, "nobody knows whether it was captured"
