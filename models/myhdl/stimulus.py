# SPDX-License-Identifier: Apache-2.0
"""Random inputs of each twin, clock by clock, for comparisons with the hand-written modules.

Counters and codes are drawn so that ties, thresholds, saturation and every plane occur.
"""

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR
from models.line_packing import LINE_BITS

MAX_COUNTED = 7
"""Planes that count 64 workers; higher planes are zero in votes."""
Values = dict[str, int]
"""Value of each port, by name."""


class Stimulus(ABC):
    """Base of the random inputs of one module; ``parameters`` are those of the RTL module."""

    latency = 0
    """Clocks from inputs to their outputs, which nothing resets."""

    def __init__(self, rng: random.Random, parameters: Mapping[str, int]) -> None:
        self.rng = rng
        self.cnt_w = parameters.get("CNT_W", 8)
        self.recent: deque[Values] = deque(maxlen=self.latency + 1)

    def draw(self) -> Values:
        """Draw the inputs of the next clock, record and return them, by name of port."""
        self.recent.append(self.values())
        return self.recent[-1]

    @abstractmethod
    def values(self) -> Values:
        """Draw the inputs of one clock."""

    def answered(self, outputs: Values) -> None:  # noqa: B027 - few have a state
        """Take the outputs of a clock, before its final edge; later inputs may depend on it."""

    def meant(self, inputs: Values) -> bool:
        """Return whether the outputs are defined, so that they can be compared, at these inputs."""
        return len(self.recent) > self.latency

    def told(self, inputs: Values, outputs: Values) -> Values:
        """Return those outputs that are defined at these inputs."""
        return outputs

    def line(self) -> int:
        """Return 512 bits: random, mostly zeros, mostly ones, all zeros or all ones."""
        bits = self.rng.getrandbits
        kind = self.rng.randrange(8)
        if kind < 2:
            return (0, (1 << LINE_BITS) - 1)[kind]
        any_, more = bits(LINE_BITS), bits(LINE_BITS)
        return (any_, any_ & more, any_ | more)[kind % 3]

    def counters(self) -> int:
        """Return CNT_W planes of 512 counters as one number.

        The upper planes are often zero, and some counters are full.
        """
        used = self.rng.choice((self.cnt_w, self.rng.randint(0, self.cnt_w)))
        full = self.line() & self.line() & self.line()
        planes = [(self.line() if p < used else 0) | full for p in range(self.cnt_w)]
        return sum(plane << LINE_BITS * p for p, plane in enumerate(planes))


class Accumulate(Stimulus):
    """Inputs of nf_accumulate: contributions of every mode to random counters."""

    def values(self) -> Values:
        ternary, ones = self.rng.choice(((0, 0), (1, 0), (0, 1)))
        return {
            "en": self.rng.random() < 0.9,
            "ternary": ternary,
            "ones": ones,
            "data": self.line(),
            "planes_in": self.counters(),
        }

    def told(self, inputs: Values, outputs: Values) -> Values:
        return outputs if inputs["en"] else {"planes_out": outputs["planes_out"]}


class Vote(Stimulus):
    """Inputs of nf_vote: random counters of at most 7 planes, and an m of at most 64.

    Requests are for votes and for planes; small bounds of m make ties likely.
    """

    latency = 2

    def values(self) -> Values:
        bound = self.rng.choice((2, 8, 16, 65))
        return {
            "en": self.rng.random() < 0.9,
            "vote": self.rng.random() < 0.8,
            "plane": self.rng.randrange(8),
            "ternary": self.rng.getrandbits(1),
            "contributions": self.rng.randrange(bound),
            "tie_minus": self.rng.getrandbits(1),
            "threshold": self.rng.choice((1, 2, self.rng.randint(1, 255))),
            "planes": self.counters() & (1 << LINE_BITS * MAX_COUNTED) - 1,
        }

    def meant(self, inputs: Values) -> bool:
        return super().meant(inputs) and bool(self.recent[0]["en"])


class Sum(Stimulus):
    """Inputs of nf_sum: requests for all views (SUM8, SUM16) of random counters."""

    latency = 1

    def values(self) -> Values:
        wide, bytes_ = self.rng.choice(((0, 0), (1, 0), (0, 1)))
        return {
            "en": self.rng.random() < 0.9,
            "wide": wide,
            "codes_signed": self.rng.getrandbits(1),
            "bytes": bytes_,
            "part": self.rng.randrange(2 if wide or bytes_ else 4),
            "planes": self.counters(),
        }


class Crc(Stimulus):
    """Inputs of nf_crc16: random flits."""

    def values(self) -> Values:
        return {"en": self.rng.random() < 0.9, "payload": self.line()}


CORNERS = (0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001)


class Fp32Add(Stimulus):
    """Inputs of nf_fp32_add: corner cases, random numbers, and pairs whose sum must be rounded."""

    latency = 1

    def values(self) -> Values:
        a, b = self.operands()
        return {"en": self.rng.random() < 0.9, "a": a, "b": b}

    def operands(self) -> tuple[int, int]:
        """Return two random binary32 bit patterns; most pairs have exponents at most 26 apart."""
        rng = self.rng
        a, b = rng.getrandbits(32), rng.getrandbits(32)
        kind = rng.choice((0, 1, 2, 2, 2, 2, 3))
        if kind == 0:
            a = rng.choice(CORNERS) | rng.getrandbits(1) << 31
        if kind <= 1 and rng.random() < 0.5:
            b = rng.choice(CORNERS) | rng.getrandbits(1) << 31
        if kind == 2:  # exponents so near that there is a rest, which is often just the half
            apart = rng.choice((0, 1, -1, 24, -24, rng.randrange(-26, 27)))
            exponent = min(max((a >> 23 & 255) + apart, 0), 255)
            few = rng.choice((0, 1 << rng.randrange(23), (1 << rng.randrange(24)) - 1))
            fraction = rng.choice((few, rng.getrandbits(23)))
            b = rng.getrandbits(1) << 31 | exponent << 23 | fraction
        if kind == 3:
            b = a ^ 1 << rng.choice((31, rng.randrange(32)))
        return a, b


class Pack(Stimulus):
    """Inputs of nf_link_tx_pack: a core that sends responses and a host that grants credits.

    How busy each is changes every 64 clocks.
    """

    def __init__(self, rng: random.Random, parameters: Mapping[str, int]) -> None:
        super().__init__(rng, parameters)
        self.ndrs: deque[S2MNDR] = deque()
        self.offered: S2MDRS | None = None
        self.taken: deque[S2MDRS] = deque()
        """Messages accepted by the packer, oldest first; the decoder of the flits removes them."""
        self.credits = [0, 0]  # NDR, DRS
        self.clocks = 0
        self.multi = False
        self._busy = [0.0, 0.0, 0.0]  # NDR, DRS, credits

    def values(self) -> Values:
        rng = self.rng
        if self.clocks % 64 == 0:
            self._busy = [rng.choice((0.0, 0.3, 0.7, 1.0)) for _ in range(3)]
            self.multi = bool(rng.getrandbits(1))
        self.clocks += 1
        ndr, drs, credits = self._busy
        return self.inputs(ndr, drs, credits, self.multi)

    def inputs(self, ndr: float, drs: float, credits: float, multi: bool) -> Values:
        """Return the inputs of a clock, with these probabilities of a new NDR, DRS and credits."""
        rng, bits = self.rng, self.rng.getrandbits
        if rng.random() < ndr and len(self.ndrs) < 4:
            self.ndrs.append(S2MNDR(0, bits(16), bits(4), bits(2)))
        if self.offered is None and rng.random() < drs:
            tag, ldid, devload, poison = bits(16), bits(4), bits(2), bool(bits(1))
            data = rng.randbytes(64)
            self.offered = S2MDRS(0, tag, ldid, data=data, poison=poison, devload=devload)
        granted = [rng.randrange(3) if rng.random() < credits else 0 for _ in range(2)]
        self.credits = [min(1023, n + more) for n, more in zip(self.credits, granted, strict=True)]
        heads = [n.tag << 6 | n.ldid << 2 | n.devload for n in self.ndrs]
        room = rng.random() < 0.9
        offered = 0
        if d := self.offered:
            head = d.tag << 7 | d.ldid << 3 | d.devload << 1 | d.poison
            offered = head << LINE_BITS | int.from_bytes(d.data, "little")
        return {
            "rst_n": 1,
            "enable": 1,
            "multi_header": multi,
            "room_drs": room,
            "room_multi": room and rng.random() < 0.8,
            "ndr_count": len(heads),
            "ndr0": heads[0] if heads else 0,
            "ndr1": heads[1] if len(heads) > 1 else 0,
            "drs_valid": self.offered is not None,
            "drs": offered,
            "ndr_credits": self.credits[0],
            "drs_credits": self.credits[1],
            "ak": bits(1),
            "req_crd": bits(4),
            "data_crd": bits(4),
            "flit_ready": rng.random() < 0.8,
        }

    def told(self, inputs: Values, outputs: Values) -> Values:
        about_the_flit = () if outputs["flit_valid"] else ("flit", "run")
        return {name: value for name, value in outputs.items() if name not in about_the_flit}

    def answered(self, outputs: Values) -> None:
        for _ in range(outputs["ndr_pop"]):
            self.ndrs.popleft()
        self.credits[0] -= outputs["ndr_pop"]
        self.credits[1] -= outputs["drs_sent"]
        if self.offered is not None and outputs["drs_ready"]:
            self.taken.append(self.offered)
            self.offered = None


STIMULI: dict[str, type[Stimulus]] = {
    "nf_accumulate": Accumulate,
    "nf_vote": Vote,
    "nf_sum": Sum,
    "nf_crc16": Crc,
    "nf_fp32_add": Fp32Add,
    "nf_link_tx_pack": Pack,
}
"""Stimulus classes by module."""
