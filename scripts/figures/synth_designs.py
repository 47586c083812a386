# SPDX-License-Identifier: Apache-2.0
"""What `nf figures synth` maps: designs, the parts of the whole, and targets."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.build.earlier import path_at
from scripts.common.records import TOP, Edit

_RTL = "scripts/figures/rtl"


@dataclass(frozen=True)
class Design:
    """``flat``: mapped as one; else module by module. ``more``: sources behind the file list.
    ``targets``: what it is mapped to, in at most ``effort_s`` of processor time each; ``routed``:
    placed and routed, too, in at most ``route_s``; ``about``: what of the device it is, and why not
    more; ``without``: modules whose instances are taken out, what they drive is 0; ``edits`` are
    made in copies of the sources. ``ecp5``: has the parameter ECP5, which is set where it is mapped
    to one. ``commit``: an earlier one, whose sources it is made of."""

    top: str
    flat: bool = True
    parameters: tuple[tuple[str, int], ...] = ()
    more: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("ecp5_small", "ecp5", "generic")
    routed: bool = False
    effort_s: float = 240.0
    route_s: float = 600.0
    about: str = ""
    without: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    ecp5: bool = False
    commit: str = ""

    def parameters_for(self, target: str) -> tuple[tuple[str, int], ...]:
        """Those of the top where it is mapped to a target."""
        carry_cells = self.ecp5 and target.startswith("ecp5")
        return (*self.parameters, *((("ECP5", 1),) if carry_cells else ()))


SLICE, SLICES = 64, 8
"""Columns of a line that a datapath is mapped for where its area is asked for, and how many such
slices a line has: all do the same."""
SLICED = Edit("hdl/pkg/nf_pkg.sv", "LINE_W      = 512;", f"LINE_W      = {SLICE};")
LOW_BIT = "low-bit datapath"
FIRST = "low-bit datapath without integer sums"
PORTABLE = f"{FIRST}, portable"
"""Without carry cells: what `ECP5` of nf_controller is worth."""
FP32 = "16-lane FP32 adder datapath"
WHOLE = "whole controller"
PLAIN = "controller without aggregation"
ENGINE = "engine, 128 columns, 16 slots"
EARLIER_COMMIT = "5293eb9a42825780897940627751365088f4eda7"
EARLIER = EARLIER_COMMIT[:7]
"""The commit whose clocks are to be doubled."""
EARLIER_ENGINE = f"engine of {EARLIER}, 128 columns, 16 slots"
LINK = "link"
FP32_STORE, FP32_GATHER = "FP32 path, stores", "FP32 path, gathers"
NARROW_OF = {f"{one}, {SLICE} columns": one for one in (LOW_BIT, FIRST)}
"""A slice of a datapath, placed and routed alone: what its gates bound, without a line's wires."""
FEWER = {f"{FIRST}, up to {2**planes - 1} workers": planes for planes in (4, 3)}
"""Counters of fewer planes: what a column costs in each."""
AGGREGATION = ("nf_engine", "nf_fp32_store", "nf_fp32_gather", "nf_record_init", "nf_capacity")
"""Modules that a controller of plain memory alone would not have."""
VOTE, COUNTING, SUMS = "vote alone", "counting alone", "integer sums alone"
STEPS = {"four planes of a vote": 4, "two planes of a vote": 2, "one plane of a vote": 1}
"""Gates of a vote of two, four or seven clocks a line, without what leads planes to them."""
PICK = "one plane picked of seven"
"""What leads a plane to the last of them."""
SHARED = (LOW_BIT, FIRST, PORTABLE, *FEWER, COUNTING, VOTE, *STEPS, PICK, SUMS)
"""Designs whose LUTs are told as a share of the yardstick's."""
_NARROW_LINE = (
    ("hdl/pkg/nf_pkg.sv", "LINE_W      = 512;", "LINE_W      = 128;"),
    ("hdl/pkg/nf_pkg.sv", "BE_W        = 64;", "BE_W        = 16;"),
)
NARROW = (
    *(Edit(*one) for one in _NARROW_LINE),
    Edit("hdl/ram/nf_data_fifo.sv", "DATA_W = 512", "DATA_W = 128"),
    Edit("hdl/engine/nf_park.sv", "DATA_W = 512", "DATA_W = 128"),
)
"""A line of a quarter: the narrowest that holds the bookkeeping of one."""
DESIGNS = {
    LOW_BIT: Design(
        *("nf_low_bit_path", True, (), (f"{_RTL}/nf_low_bit_path.sv",)), routed=True, ecp5=True
    ),
    FP32: Design("nf_fp32_path", more=(f"{_RTL}/nf_fp32_path.sv",), routed=True),
    FIRST: Design(
        *("nf_low_bit_path", True, (("SUMS", 0),), (f"{_RTL}/nf_low_bit_path.sv",)),
        targets=("ecp5_small", "ecp5"),
        routed=True,
        ecp5=True,
    ),
    PORTABLE: Design(
        *("nf_low_bit_path", True, (("SUMS", 0),), (f"{_RTL}/nf_low_bit_path.sv",)),
        targets=("ecp5_small",),
    ),
    **{
        name: Design(
            *("nf_low_bit_path", True, (("SUMS", int(whole == LOW_BIT)),)),
            *((f"{_RTL}/nf_low_bit_path.sv",), ("ecp5",), True),
            edits=(SLICED,),
            ecp5=True,
        )
        for name, whole in NARROW_OF.items()
    },
    **{
        name: Design(
            *("nf_low_bit_path", True, (("SUMS", 0), ("CNT_W", planes))),
            *((f"{_RTL}/nf_low_bit_path.sv",), ("ecp5_small",)),
            ecp5=True,
        )
        for name, planes in FEWER.items()
    },
    VOTE: Design("nf_ecp5_vote", parameters=(("CNT_W", 7),), targets=("ecp5_small",)),
    **{
        name: Design("nf_vote_steps", parameters=(("PLANES", planes),), targets=("ecp5_small",))
        for name, planes in STEPS.items()
    },
    PICK: Design("nf_plane_pick", more=(f"{_RTL}/nf_plane_pick.sv",), targets=("ecp5_small",)),
    COUNTING: Design(
        *("nf_counting", True, (), (f"{_RTL}/nf_counting.sv",), ("ecp5_small",)), ecp5=True
    ),
    SUMS: Design("nf_sum", parameters=(("CNT_W", 7),), targets=("ecp5_small",)),
    ENGINE: Design(
        *("nf_engine", True),
        parameters=(("SLOTS", 16), ("OPS", 32), ("MISS_DEPTH", 16), ("WRITTEN_LOG2", 6)),
        targets=("ecp5_short",),
        routed=True,
        route_s=1200.0,
        edits=NARROW,
        about="nf_engine with a line of a quarter and a quarter of its slots, that it can be "
        "placed and routed: the table of parts has the LUTs of the whole one",
    ),
    EARLIER_ENGINE: Design(
        *("nf_engine", True),
        parameters=(("SLOTS", 16),),
        targets=("ecp5_short",),
        routed=True,
        edits=tuple(Edit(path_at(EARLIER_COMMIT, file), *texts) for file, *texts in _NARROW_LINE),
        commit=EARLIER_COMMIT,
        about=f"the same of commit {EARLIER}, with the tools of this run",
    ),
    LINK: Design("nf_link", True, targets=("ecp5_short",), routed=True),
    FP32_STORE: Design("nf_fp32_store", True, targets=("ecp5_short",), routed=True),
    FP32_GATHER: Design("nf_fp32_gather", True, targets=("ecp5_short",), routed=True),
    PLAIN: Design(TOP, targets=("ecp5_fast",), without=AGGREGATION, effort_s=240.0),
    WHOLE: Design(*(TOP, False), targets=("ecp5_fast", "generic"), effort_s=1200.0),
}
"""What is asked for first comes first: what is left of the processor time is for the rest."""
DATAPATH = "low-bit datapath in the engine"
PARTS = {
    "engine": ("nf_engine",),
    DATAPATH: ("nf_accumulate", "nf_vote", "nf_sum", "nf_line_codes"),
    "link": ("nf_link",),
    "FP32 path": ("nf_fp32_store", "nf_fp32_gather"),
    "registers": ("nf_regs",),
    "regions and status": ("nf_regions", "nf_region_status"),
    "memory ports": ("nf_axi_read", "nf_axi_write"),
}
"""Parts of the whole controller, by the modules that they are."""
TARGETS = {
    "ecp5_small": "ECP5 for area",
    "ecp5": "ECP5",
    "ecp5_fast": "ECP5 mapped fast",
    "ecp5_short": "ECP5 for short paths",
    "generic": "generic cells",
}
