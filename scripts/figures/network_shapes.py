# SPDX-License-Identifier: Apache-2.0
"""Networks as tables of tensor shapes, with the role of each tensor: head, embedding, norm,
bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path

from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec
from neuron_fabric.data import read_text
from neuron_fabric.typed import typed
from scripts.common import data
from verif.replay.plan import layer_of
from verif.replay.source import resnet18

_Row = tuple[str, str, tuple[int, ...]]
"""Name, kind, shape."""


class Role(StrEnum):
    """Role of a tensor in a network; if several apply, the first of these."""

    HEAD = "head"  # of the output layer, also where an embedding is tied to it
    EMBEDDING = "embedding"
    NORM = "norm"  # scale or shift of a normalization
    BIAS = "bias"
    WEIGHT = "weight"


@dataclass(frozen=True)
class Tensor:
    """Shape and role of a tensor."""

    name: str
    shape: tuple[int, ...]
    role: Role

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Network:
    """Network; ``workers``: number of workers of a capture; 0 for any number."""

    name: str
    tensors: tuple[Tensor, ...]
    workers: int = 0

    @property
    def elements(self) -> int:
        """Return the elements of all tensors."""
        return sum(tensor.elements for tensor in self.tensors)

    def elements_of(self, role: Role) -> int:
        """Return the elements of the tensors of a role."""
        return sum(tensor.elements for tensor in self.tensors if tensor.role is role)


def of_capture(capture: Capture) -> Network:
    """Return the tensors of a capture."""
    roles = _roles(capture.tensors, capture.modules)
    tensors = tuple(Tensor(s.name, s.shape, roles[s.name]) for s in capture.tensors)
    return Network(f"capture {capture.path.name} ({capture.model})", tensors, capture.world_size)


def _roles(tensors: Sequence[TensorSpec], modules: Sequence[ModuleSpec]) -> dict[str, Role]:
    """Return roles as `verif.replay.plan.default_routes` assigns them: by modules if known;
    otherwise the last layer is the head, and a tensor of one dimension is a norm or a bias.
    """
    last = layer_of(tensors[-1].name) if tensors and not modules else ""
    out = {spec.name: _by_shape(spec, last) for spec in tensors}
    for role in (Role.NORM, Role.EMBEDDING, Role.HEAD):  # the last one that fits stays
        for module in modules:
            fits = {
                Role.NORM: module.is_norm,
                Role.EMBEDDING: module.is_embedding,
                Role.HEAD: module.head,
            }
            out.update((name, role) for name in module.tensors if fits[role])
    return out


def _by_shape(spec: TensorSpec, head: str) -> Role:
    if head and layer_of(spec.name) == head:
        return Role.HEAD
    leaf = spec.name.rpartition(".")[2]
    if "bias" in leaf or len(spec.shape) <= 1:
        return Role.BIAS
    return Role.WEIGHT


# -- networks known by their shapes -------------------------------------------------------------
def resnet18_cifar(classes: int) -> Network:
    """Return ResNet-18 with the CIFAR stem (3x3 convolution, no pooling)."""
    out = []
    for spec in resnet18():
        shape = (classes, *spec.shape[1:]) if spec.name.startswith("fc.") else spec.shape
        out.append(Tensor(spec.name, shape, Role.NORM if len(shape) == 1 else Role.WEIGHT))
    return Network(f"ResNet-18 (CIFAR stem, {classes} classes)", _heads(out, "fc."))


@dataclass(frozen=True)
class _Listed:
    """Network of networks.yaml."""

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
    """Yield the tensors of a row."""
    if kind in ("conv", "linear"):
        yield Tensor(f"{name}.weight", shape, Role.WEIGHT)
    if kind == "linear":
        yield Tensor(f"{name}.bias", shape[:1], Role.BIAS)
    if kind in ("conv", "norm"):
        own = f"{name}.norm" if kind == "conv" else name
        yield from (Tensor(f"{own}.{leaf}", shape[:1], Role.NORM) for leaf in ("weight", "bias"))
    if kind == Role.EMBEDDING:
        yield Tensor(name, shape, Role.EMBEDDING)


def _heads(tensors: Sequence[Tensor], prefix: str) -> tuple[Tensor, ...]:
    """Return the tensors, with those that begin with the prefix as the head."""
    return tuple(
        Tensor(one.name, one.shape, Role.HEAD if one.name.startswith(prefix) else one.role)
        for one in tensors
    )


_FILE = data.parse_yaml(read_text(Path(__file__).with_name("networks.yaml")))
NETWORKS: dict[str, Network] = {
    "resnet18": resnet18_cifar(10),
    "resnet18-100": resnet18_cifar(100),
    **{word: one.network() for word, one in typed(dict[str, _Listed], _FILE).items()},
}
"""Networks by the word for `--network`."""
