# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures traffic`: counts bytes per gradient element in each direction.

It covers every mode, read view and choice of tensors in FP32; set_up.yaml describes the count.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from models.integer_codes import buckets
from models.line_packing import LINE_BYTES
from models.modes import Mode, elements_per_line
from models.parameters import DeviceParams
from models.regions import RegionConfig, planes_kept, sum_selectors
from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec
from neuron_fabric.data import read_text
from neuron_fabric.profile.profile_types import Kind
from neuron_fabric.typed import typed
from scripts.common import data
from scripts.common.paths import CAPTURE
from scripts.figures.result_file import Cell, Column, Line, Measured, Plot, Table, set_up
from verif.replay.gradient_source import resnet18
from verif.replay.routing import layer_of

# Networks as tables of tensor shapes, with the role of each tensor: head, embedding, norm, bias.

_Row = tuple[str, str, tuple[int, ...]]
"""Name, kind, shape."""


@dataclass(frozen=True)
class Tensor:
    """Name, shape and role of a tensor."""

    name: str
    shape: tuple[int, ...]
    role: Kind

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Network:
    """A network as a list of tensors.

    ``workers`` is the number of workers of a capture; 0 for any number.
    """

    name: str
    tensors: tuple[Tensor, ...]
    workers: int = 0

    @property
    def elements(self) -> int:
        """Number of elements of all tensors."""
        return sum(tensor.elements for tensor in self.tensors)

    def elements_of(self, role: Kind) -> int:
        """Return the number of elements of all tensors of a role."""
        return sum(tensor.elements for tensor in self.tensors if tensor.role is role)


def of_capture(capture: Capture) -> Network:
    """Return the network that a capture was made of."""
    roles = _roles(capture.tensors, capture.modules)
    tensors = tuple(Tensor(s.name, s.shape, roles[s.name]) for s in capture.tensors)
    return Network(f"capture {capture.path.name} ({capture.model})", tensors, capture.world_size)


def _roles(tensors: Sequence[TensorSpec], modules: Sequence[ModuleSpec]) -> dict[str, Kind]:
    """Return the role of each tensor by name, as `verif.replay.routing.default_routes` does.

    Modules determine it if known; otherwise the last layer is the head, and a tensor of one
    dimension is a norm or a bias.
    """
    last = layer_of(tensors[-1].name) if tensors and not modules else ""
    out = {spec.name: _by_shape(spec, last) for spec in tensors}
    fits = {Kind.NORM: "is_norm", Kind.EMBEDDING: "is_embedding", Kind.HEAD: "head"}
    for role, attribute in fits.items():  # the last one that fits stays
        for module in modules:
            out.update((name, role) for name in module.tensors if getattr(module, attribute))
    return out


def _by_shape(spec: TensorSpec, head: str) -> Kind:
    if head and layer_of(spec.name) == head:
        return Kind.HEAD
    leaf = spec.name.rpartition(".")[2]
    if "bias" in leaf or len(spec.shape) <= 1:
        return Kind.BIAS
    return Kind.LINEAR


# -- networks known by their shapes -------------------------------------------------------------
def resnet18_cifar(classes: int) -> Network:
    """Return ResNet-18 with the CIFAR stem (3x3 convolution, no pooling)."""
    out = []
    for spec in resnet18():
        shape = (classes, *spec.shape[1:]) if spec.name.startswith("fc.") else spec.shape
        out.append(Tensor(spec.name, shape, Kind.NORM if len(shape) == 1 else Kind.LINEAR))
    return Network(f"ResNet-18 (CIFAR stem, {classes} classes)", _heads(out, "fc."))


@dataclass(frozen=True)
class _Listed:
    """A network as listed in `networks.yaml`.

    Attributes:
        name: Name.
        head: Start of the names of the head's tensors.
        before: Rows before the repeated layers.
        layers: Number of repeated layers.
        each: Rows of each of them.
        after: Rows after them.
    """

    name: str
    head: str
    before: tuple[_Row, ...]
    layers: int = 0
    each: tuple[_Row, ...] = ()
    after: tuple[_Row, ...] = ()

    def network(self) -> Network:
        """Return the network with all tensors of its rows."""
        layers = [
            (f"layer{n}.{name}", kind, shape)
            for n in range(self.layers)
            for name, kind, shape in self.each
        ]
        rows = (*self.before, *layers, *self.after)
        return Network(
            self.name, _heads([one for row in rows for one in _tensors(*row)], self.head)
        )


def _tensors(name: str, kind: str, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Yield the tensors of a row of a given kind: conv, linear, norm or embedding."""
    if kind in ("conv", "linear"):
        yield Tensor(f"{name}.weight", shape, Kind.LINEAR)
    if kind == "linear":
        yield Tensor(f"{name}.bias", shape[:1], Kind.BIAS)
    if kind in ("conv", "norm"):
        own = f"{name}.norm" if kind == "conv" else name
        yield from (Tensor(f"{own}.{leaf}", shape[:1], Kind.NORM) for leaf in ("weight", "bias"))
    if kind == Kind.EMBEDDING:
        yield Tensor(name, shape, Kind.EMBEDDING)


def _heads(tensors: Sequence[Tensor], prefix: str) -> tuple[Tensor, ...]:
    """Return the tensors, with the role HEAD for those whose name begins with the prefix."""
    return tuple(
        Tensor(one.name, one.shape, Kind.HEAD if one.name.startswith(prefix) else one.role)
        for one in tensors
    )


_FILE = data.parse_yaml(read_text(Path(__file__).with_name("networks.yaml")))
NETWORKS: dict[str, Network] = {
    "resnet18": resnet18_cifar(10),
    "resnet18-100": resnet18_cifar(100),
    **{word: one.network() for word, one in typed(dict[str, _Listed], _FILE).items()},
}
"""Networks by a short name."""


SLOT_BYTES = 16
SLOTS_A_LINE = LINE_BYTES // SLOT_BYTES
SLOTS_A_FLIT = 4
FRAMING_BYTES = 4
"""Bytes of a flit: 2 of Protocol ID, 2 of CRC."""
FP32_BYTES = 4


POLICIES: dict[str, frozenset[Kind]] = {
    "all low-bit": frozenset(),
    "head in FP32": frozenset({Kind.HEAD}),
    "head, norms and biases in FP32": frozenset({Kind.HEAD, Kind.NORM, Kind.BIAS}),
}
"""Tensors that are sent as FP32 and read as its sum, whatever the mode of the others."""
SIDECAR_ROWS = 2
"""Rows of the sidecar: scales and presence; each begins with a new line."""


@dataclass(frozen=True)
class Choice:
    """Mode of a region and view of its results; ``lines`` lines are read for each line written."""

    mode: Mode
    view: str
    lines: int


def choices(workers: int) -> tuple[Choice, ...]:
    """Return every mode and read view of a region with that many workers; FP32 sums first."""
    out = [Choice(Mode.FP32, "sum", 1), Choice(Mode.FP32, "every worker's line", workers)]
    out.append(Choice(Mode.IDENTITY, "every worker's line", workers))
    for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_TERN5):
        planes = planes_kept(mode.counts_to(workers), DeviceParams().cnt_w)
        out += [Choice(mode, "vote", 1), Choice(mode, "planes", planes)]
    planes = planes_kept(workers, DeviceParams().cnt_w)
    for mode in (Mode.G_INT4, Mode.G_INT8):
        selectors = sum_selectors(RegionConfig(0, 0, 0, workers, mode))
        wide = sum(selector < 32 for selector in selectors)
        if len(selectors) > wide:
            out.append(Choice(mode, "SUM8", len(selectors) - wide))
        out += [Choice(mode, "SUM16", wide), Choice(mode, "planes", planes)]
    return tuple(out)


@dataclass(frozen=True)
class Way:
    """Bytes of one worker and step in one direction of the link."""

    payload: int
    headers: float
    framing: float

    @property
    def wire(self) -> float:
        """Sum of payload, headers and framing."""
        return self.payload + self.headers + self.framing


@dataclass(frozen=True)
class Traffic:
    """Lines that one worker writes and reads in a step of a network with so many ``elements``.

    The properties are the bytes ``up`` (to the device) and ``down``.
    """

    elements: int
    written: int
    read: int

    @property
    def up(self) -> Way:
        """Bytes to the device: writes with their data, and read requests."""
        return _way(self.written, self.written + self.read)

    @property
    def down(self) -> Way:
        """Bytes from the device: read responses with data, and completions, two in a flit slot."""
        return _way(self.read, self.read + self.written / 2)

    @property
    def payload(self) -> int:
        """Bytes of payload in both directions."""
        return self.up.payload + self.down.payload

    @property
    def wire(self) -> float:
        """All bytes in both directions."""
        return self.up.wire + self.down.wire


def _way(lines: int, headers: float) -> Way:
    slots = lines * SLOTS_A_LINE + headers
    framing = FRAMING_BYTES * slots / SLOTS_A_FLIT
    return Way(lines * LINE_BYTES, headers * SLOT_BYTES, framing)


def count(network: Network, choice: Choice, kept: frozenset[Kind], workers: int) -> Traffic:
    """Count the lines of one worker's step.

    Args:
        network: Network.
        choice: Mode and read view.
        kept: Roles of tensors that are sent as FP32, read as its sum, and have no scale.
        workers: Number of workers.
    """
    written = read = scaled = maxima = 0
    for tensor in network.tensors:
        as_sum = tensor.role in kept
        mode = Mode.FP32 if as_sum or choice.mode == Mode.IDENTITY else choice.mode
        lines = -(-tensor.elements // elements_per_line(mode))
        written += lines
        read += lines * (1 if as_sum else choice.lines)
        scaled += mode.low_bit
        maxima += buckets(tensor.elements) if mode.bits else 0
    sidecar = SIDECAR_ROWS * _lines_of_fp32(scaled)
    of_maxima = _lines_of_fp32(maxima)
    written += sidecar + of_maxima
    read += sidecar + of_maxima * workers
    return Traffic(network.elements, written, read)


def _lines_of_fp32(numbers: int) -> int:
    return -(-numbers * FP32_BYTES // LINE_BYTES)


def ring_bytes(elements: int, workers: int) -> float:
    """Return the payload bytes that a worker sends and receives in an FP32 ring all-reduce."""
    return 2 * 2 * (workers - 1) / workers * FP32_BYTES * elements


HELP = "bytes per gradient element each way, by mode, read view and network"
WORKERS = 8
CURVE_WORKERS = (2, 4, 8, 16, 32, 64)

COLUMNS = (
    *(Column("route"), Column("read as")),
    *(Column("payload up B/el", 4), Column("down B/el", 4)),
    *(Column("on the wire up B/el", 4), Column("down B/el", 4)),
    *(Column("payload, both ways: % of FP32"), Column("% of ring FP32")),
    *(Column("wire: % of FP32"), Column("payload-only, one-way (up): % of FP32")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no option: all is counted in no time."""


def run(args: argparse.Namespace) -> Measured:
    """Count the traffic of the shipped capture and of all networks; return tables and plots."""
    networks = [of_capture(Capture.open(CAPTURE)), *NETWORKS.values()]
    tables = [
        _table(network, policy, network.workers or WORKERS)
        for network in networks
        for policy in POLICIES
    ]
    return Measured(
        set_up=set_up(
            "traffic",
            workers=WORKERS,
            networks="; ".join(_described(network) for network in networks),
        ),
        tables=tuple(tables),
        plots=tuple(_over_workers(network) for network in networks if not network.workers),
        followed=_followed(networks, WORKERS),
    )


def _described(network: Network) -> str:
    head = network.elements_of(Kind.HEAD)
    return (
        f"{network.name}: {network.elements:,} elements in {len(network.tensors)} tensors, "
        f"{head:,} of them in the head"
    )


def _table(network: Network, policy: str, workers: int) -> Table:
    kept, (whole_sum, *others) = POLICIES[policy], choices(workers)
    shown = [whole_sum, *(one for one in others if one.mode.low_bit or not kept)]
    found = {one: count(network, one, kept, workers) for one in shown}
    whole = found[whole_sum]
    rows = [_row(one, traffic, whole, workers) for one, traffic in found.items()]
    return Table(f"{network.name}, {workers} workers, {policy}", COLUMNS, tuple(rows))


def _row(choice: Choice, traffic: Traffic, whole: Traffic, workers: int) -> tuple[Cell, ...]:
    n = max(1, traffic.elements)
    ring = ring_bytes(traffic.elements, workers)
    up, down = traffic.up, traffic.down
    return (
        *(choice.mode.name, choice.view),
        *(up.payload / n, down.payload / n, up.wire / n, down.wire / n),
        100 * traffic.payload / max(1, whole.payload),
        100 * traffic.payload / ring if ring else None,
        100 * traffic.wire / max(1.0, whole.wire),
        100 * up.payload / max(1, whole.up.payload),
    )


_SHOWN = ((Mode.G_BINARY, "vote"), (Mode.G_BINARY, "planes"), (Mode.G_TERNARY, "vote"),
          (Mode.G_TERN5, "vote"),
          (Mode.G_INT4, "SUM8"), (Mode.G_INT4, "SUM16"), (Mode.G_INT8, "SUM16"))  # fmt: skip
"""Modes and views in the plots."""
_FOLLOWED = (*_SHOWN, (Mode.G_TERNARY, "planes"), (Mode.G_TERN5, "planes"))
_HEAD = "head in FP32"


def _percent(network: Network, choice: Choice, workers: int) -> tuple[float, float]:
    """Return the payload, both ways and up alone, in percent of FP32 sums through the device.

    The head is sent in FP32.
    """
    whole = count(network, choices(workers)[0], frozenset(), workers)
    found = count(network, choice, POLICIES[_HEAD], workers)
    return (
        100 * found.payload / max(1, whole.payload),
        100 * found.up.payload / max(1, whole.up.payload),
    )


def _over_workers(network: Network) -> Plot:
    lines = []
    for mode, view in _SHOWN:
        points = [
            (float(workers), _percent(network, one, workers)[0])
            for workers in CURVE_WORKERS
            for one in choices(workers)
            if (one.mode, one.view) == (mode, view)
        ]
        lines.append(Line(f"{mode.name} {view}", tuple(points)))
    return Plot(
        f"{network.name}, {_HEAD}: payload both ways over workers",
        *("workers", "% of FP32 through the device", tuple(lines)),
    )


def _followed(networks: Sequence[Network], workers: int) -> dict[str, float]:
    """Return the figures that are compared with the baseline, by name.

    ``up`` is the same for all views of a mode and is listed once.
    """
    out = {}
    for network in networks:
        for one in choices(network.workers or workers):
            if (one.mode, one.view) in _FOLLOWED:
                both, up = _percent(network, one, network.workers or workers)
                name, mode = network.name, one.mode.name
                way = f"{_HEAD}: payload both ways, % of FP32"
                out[f"{name}, {mode} {one.view}, {way}"] = round(both, 4)
                way = f"{_HEAD}: payload-only, one-way (up), % of FP32"
                out[f"{name}, {mode}, {way}"] = round(up, 4)
    return out
