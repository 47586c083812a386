# SPDX-License-Identifier: Apache-2.0
"""Sketch of a model: its parameters, their kinds, ties and depth, and its fingerprint.

Modules are classified by the names of their classes, so that only `traced_head`, which runs the
model, needs torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.profile_types import Kind
from neuron_fabric.wrapped import bare_model, named_parameters

DEPTHS = 3
"""Number of depth groups of convolutions, linear layers, attention and recurrent layers."""
DEEP = (Kind.CONV, Kind.LINEAR, Kind.ATTENTION, Kind.RECURRENT)
_CLASSES = {
    Kind.EMBEDDING: {"Embedding", "EmbeddingBag"},
    Kind.NORM: {"_NormBase", "LayerNorm", "RMSNorm", "GroupNorm"},
    Kind.ATTENTION: {"MultiheadAttention"},
    Kind.CONV: {"_ConvNd"},
    Kind.LINEAR: {"Linear", "Bilinear"},
    Kind.RECURRENT: {"RNNBase", "RNNCellBase"},
}
"""Classes of torch by kind, in order of precedence."""
_WORDS = {
    Kind.ATTENTION: ("attention",),
    Kind.CONV: ("conv",),
    Kind.LINEAR: ("linear",),
    Kind.RECURRENT: ("rnn", "lstm", "gru"),
}
"""Parts of the names of other classes by kind."""
_ORDER = (Kind.HEAD, Kind.EMBEDDING, Kind.NORM, *DEEP, Kind.REST)
"""Order of precedence for a parameter that several modules share."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a model; tied parameters appear once.

    Attributes:
        name: First of its names.
        shape: Its shape.
        dtype: Its type without "torch.", such as "float32".
        trainable: Whether it requires a gradient.
        kind: Kind of the layer that it belongs to.
        depth: Depth group among the parameters of its kind, 0 to DEPTHS - 1.
        names: All names of a tied parameter.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    kind: Kind
    depth: int = 0
    names: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def region(self) -> str:
        """Return the name of its region in a new profile: the kind, plus depth group for layers."""
        return f"{self.kind}.{self.depth}" if self.kind in DEEP else str(self.kind)


def sketch(model: Any, head: Collection[str] = ()) -> tuple[Parameter, ...]:
    """Return the parameters of a torch model in the order of `named_parameters`.

    The model may be on any device.

    Args:
        model: The model, wrapped or not.
        head: Any names of the parameters of its head, as in a profile or from `traced_head`.
    """
    bare = bare_model(model)
    names: dict[int, list[str]] = {}
    owners: dict[int, list[tuple[str, Kind]]] = {}
    for name, parameter in named_parameters(bare, remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for chain in _modules(bare):
        place, kind = _kind_of(chain)
        for parameter in chain[-1][1].parameters(recurse=False):
            owners.setdefault(id(parameter), []).append((place, kind))
    places = []
    for _, parameter in named_parameters(bare):
        kind = min((kind for _, kind in owners[id(parameter)]), key=_ORDER.index)
        if not set(names[id(parameter)]).isdisjoint(head):
            kind = Kind.HEAD
        elif parameter.dim() < 2 and kind not in (Kind.EMBEDDING, Kind.NORM):
            kind = Kind.BIAS
        places.append((kind, owners[id(parameter)][0][0]))
    depths = _depths(places)
    return tuple(
        Parameter(
            name,
            tuple(int(size) for size in one.shape),
            str(one.dtype).removeprefix("torch."),
            one.requires_grad,
            place[0],
            depths.get(place, 0),
            tuple(names[id(one)]),
        )
        for (name, one), place in zip(named_parameters(bare), places, strict=True)
    )


def traced_head(model: Any, *inputs: Any, **words: Any) -> tuple[str, ...]:
    """Return the names of the head's parameters, found by a forward pass.

    The head is the set of modules that own the weight of two or more dimensions which the pass uses
    last. Tied weights belong to several modules.

    Raises:
        ProfileError: The pass uses no such weight.
    """
    bare = bare_model(model)
    with last_weight(bare) as last:
        bare(*inputs, **words)
    found = head_of(bare, last)
    if not found:
        what = "its forward pass uses no weight of two dimensions"
        raise ProfileError(type(bare).__name__, what, "name the head's parameters")
    return found


@contextmanager
def last_weight(bare: Any) -> Iterator[list[int]]:
    """Record which weight of two or more dimensions was used last while the block runs.

    Yields:
        A list with the id of that weight, or an empty list.
    """
    from torch.overrides import TorchFunctionMode

    ours = {id(parameter): parameter for parameter in bare.parameters()}
    last: list[int] = []

    class LastWeightMode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            # Functions such as linear(). Attributes of a parameter are read by __get__, which is no
            # use.
            if getattr(function, "__name__", "") != "__get__":
                for one in (*args, *(kwargs or {}).values()):
                    if id(one) in ours and one.dim() >= 2:
                        last[:] = [id(one)]
            return function(*args, **(kwargs or {}))

    with LastWeightMode():
        yield last


def head_of(bare: Any, last: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the parameters of the head.

    The head are the modules that own the weight ``last`` of `last_weight`.
    """
    head = {
        id(parameter)
        for *_, (_, module) in _modules(bare)
        if any(id(one) in last for one in module.parameters(recurse=False))
        for parameter in module.parameters(recurse=False)
    }
    return tuple(name for name, parameter in named_parameters(bare) if id(parameter) in head)


_Chain = tuple[tuple[str, Any], ...]
"""A module below all modules that contain it, outermost first, each with its path."""


def _modules(module: Any, above: _Chain = (), name: str = "") -> Iterator[_Chain]:
    """Yield every module below all modules that contain it; shared modules at each place."""
    path = f"{above[-1][0]}.{name}".removeprefix(".") if above else ""
    chain = (*above, (path, module))
    yield chain
    for below, child in module.named_children():
        yield from _modules(child, chain, below)


def _kind_of(chain: _Chain) -> tuple[str, Kind]:
    """Return the path that gives a module's depth, and the kind of its parameters.

    ``chain`` leads from the model down to the module. The path is that of the module, or of the
    attention that contains it.
    """
    path, module = chain[-1]
    classes = _class_names(module)
    name = type(module).__name__.lower()
    own = list(module.parameters(recurse=False))
    for kind in (Kind.EMBEDDING, Kind.NORM):
        if classes & _CLASSES[kind]:
            return path, kind
    if own and "norm" in name and all(parameter.dim() <= 1 for parameter in own):
        return path, Kind.NORM
    for place, one in chain[1:] or chain:  # the model itself may be named attention
        if _is(one, Kind.ATTENTION):
            return place, Kind.ATTENTION
    for kind in (Kind.CONV, Kind.LINEAR, Kind.RECURRENT):
        if classes & _CLASSES[kind]:
            return path, kind
    kind = next((kind for kind in _WORDS if _is(module, kind)), Kind.REST)
    if kind == Kind.CONV and all(parameter.dim() <= 2 for parameter in own):
        return path, Kind.LINEAR  # Conv1D of transformers: a matrix, [in, out]
    return path, kind


def _is(module: Any, kind: Kind) -> bool:
    name = type(module).__name__.lower()
    return bool(_class_names(module) & _CLASSES[kind]) or any(w in name for w in _WORDS[kind])


def _class_names(module: Any) -> set[str]:
    return {one.__name__ for one in type(module).__mro__}


def _depths(places: Iterable[tuple[Kind, str]]) -> dict[tuple[Kind, str], int]:
    """Return the depth group by (kind, path of module).

    The modules of a kind, in their order, are divided into DEPTHS groups of equal size.
    """
    modules: dict[Kind, list[str]] = {}
    for kind, place in places:
        of_kind = modules.setdefault(kind, [])
        if kind in DEEP and place not in of_kind:
            of_kind.append(place)
    return {
        (kind, place): number * DEPTHS // len(those)
        for kind, those in modules.items()
        for number, place in enumerate(those)
    }


def fingerprint(parameters: Sequence[Parameter]) -> str:
    """Return the fingerprint of a model, "sha256:" and hex digits.

    It covers name, shape, dtype, trainable, kind and tied names of each parameter, in order.
    """
    digest = hashlib.sha256()
    for one in parameters:
        row = [one.name, list(one.shape), one.dtype, one.trainable, one.kind, list(one.names)]
        digest.update(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return f"sha256:{digest.hexdigest()}"
