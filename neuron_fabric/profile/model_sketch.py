# SPDX-License-Identifier: Apache-2.0
"""What a profile must know of a model: its parameters, their kinds, ties and depth.

Modules are looked at by the names of their classes, so that nothing here needs torch but
`traced_head`, which runs the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.profile_types import Kind
from neuron_fabric.wrapped import bare_model, named_parameters

DEPTHS = 3
"""Groups by depth that convolutions, linear layers and the like are divided into."""
DEEP = (Kind.CONV, Kind.LINEAR, Kind.ATTENTION, Kind.RECURRENT)
_CLASSES = {
    Kind.EMBEDDING: {"Embedding", "EmbeddingBag"},
    Kind.NORM: {"_NormBase", "LayerNorm", "RMSNorm", "GroupNorm"},
    Kind.ATTENTION: {"MultiheadAttention"},
    Kind.CONV: {"_ConvNd"},
    Kind.LINEAR: {"Linear", "Bilinear"},
    Kind.RECURRENT: {"RNNBase", "RNNCellBase"},
}
"""Classes of torch, in the order in which they are looked for."""
_WORDS = {
    Kind.ATTENTION: ("attention",),
    Kind.CONV: ("conv",),
    Kind.LINEAR: ("linear",),
    Kind.RECURRENT: ("rnn", "lstm", "gru"),
}
"""Parts of the names of other classes."""
_ORDER = (Kind.HEAD, Kind.EMBEDDING, Kind.NORM, *DEEP, Kind.REST)
"""Of several modules that share a parameter, the first of these counts."""


@dataclass(frozen=True)
class Parameter:
    """One parameter, tied ones once. ``names``: all that it has, ``name`` the first of them.
    ``depth``: its group among those of its kind, 0 to DEPTHS - 1."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    kind: Kind
    depth: int = 0
    names: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Elements of it."""
        return prod(self.shape)

    @property
    def region(self) -> str:
        """The name of its region where a profile is made: the kind, and the depth of some."""
        return f"{self.kind}.{self.depth}" if self.kind in DEEP else str(self.kind)


def sketch(model: Any, head: Collection[str] = ()) -> tuple[Parameter, ...]:
    """Parameters of a torch model, on whatever device, in the order of `named_parameters`.

    ``head``: any names of the parameters of its head, as a profile or `traced_head` has them.
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
    found = []
    for name, parameter in named_parameters(bare):
        known = names[id(parameter)]
        kinds = [kind for _, kind in owners[id(parameter)]]
        kind = min(kinds, key=_ORDER.index)
        if not set(known).isdisjoint(head):
            kind = Kind.HEAD
        elif parameter.dim() < 2 and kind not in (Kind.EMBEDDING, Kind.NORM):
            kind = Kind.BIAS
        dtype = str(parameter.dtype).removeprefix("torch.")
        shape = tuple(int(size) for size in parameter.shape)
        place = owners[id(parameter)][0][0]
        found.append((Parameter(name, shape, dtype, parameter.requires_grad, kind), place, known))
    depths = _depths((one.kind, place) for one, place, _ in found)
    return tuple(
        Parameter(**{**vars(one), "depth": depths.get((one.kind, place), 0), "names": tuple(known)})
        for one, place, known in found
    )


def traced_head(model: Any, *inputs: Any, **words: Any) -> tuple[str, ...]:
    """Names of the head's parameters, by a forward pass: those of the modules that own the weight
    (two dimensions or more) which was used last, and all that are tied to it.

    ProfileError when the pass uses no such weight.
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
    """While the block runs, which weight of two dimensions or more was used last: its id in a
    list, or nothing."""
    from torch.overrides import TorchFunctionMode

    ours = {id(parameter): parameter for parameter in bare.parameters()}
    last: list[int] = []

    class LastWeightMode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            # Functions such as linear(); attributes of a parameter are read by __get__.
            if getattr(function, "__name__", "") != "__get__":
                for one in (*args, *(kwargs or {}).values()):
                    if id(one) in ours and one.dim() >= 2:
                        last[:] = [id(one)]
            return function(*args, **(kwargs or {}))

    with LastWeightMode():
        yield last


def head_of(bare: Any, last: Sequence[int]) -> tuple[str, ...]:
    """Names of the parameters of the modules that own the weight which `last_weight` has found."""
    head = {
        id(parameter)
        for *_, (_, module) in _modules(bare)
        if any(id(one) in last for one in module.parameters(recurse=False))
        for parameter in module.parameters(recurse=False)
    }
    return tuple(name for name, parameter in named_parameters(bare) if id(parameter) in head)


_Chain = tuple[tuple[str, Any], ...]
"""A module below all that are around it, the outermost first, each with its path."""


def _modules(module: Any, above: _Chain = (), name: str = "") -> Iterator[_Chain]:
    """Every module, shared ones at each of their places."""
    path = f"{above[-1][0]}.{name}".removeprefix(".") if above else ""
    chain = (*above, (path, module))
    yield chain
    for below, child in module.named_children():
        yield from _modules(child, chain, below)


def _kind_of(chain: _Chain) -> tuple[str, Kind]:
    """The kind of a module's own weights, and the path of what is counted by depth: the module, or
    the attention that it is a part of."""
    path, module = chain[-1]
    classes = _class_names(module)
    name = type(module).__name__.lower()
    own = list(module.parameters(recurse=False))
    for kind in (Kind.EMBEDDING, Kind.NORM):
        if classes & _CLASSES[kind]:
            return path, kind
    if own and "norm" in name and all(parameter.dim() <= 1 for parameter in own):
        return path, Kind.NORM
    for place, one in chain[1:] or chain:  # a whole model may be called so
        if _is(one, Kind.ATTENTION):
            return place, Kind.ATTENTION
    for kind in (Kind.CONV, Kind.LINEAR, Kind.RECURRENT):
        if classes & _CLASSES[kind]:
            return path, kind
    kind = next((kind for kind in _WORDS if _is(module, kind)), Kind.REST)
    if kind == Kind.CONV and all(parameter.dim() <= 2 for parameter in own):
        return path, Kind.LINEAR  # as Conv1D of transformers: a matrix, [in, out]
    return path, kind


def _is(module: Any, kind: Kind) -> bool:
    name = type(module).__name__.lower()
    return bool(_class_names(module) & _CLASSES[kind]) or any(w in name for w in _WORDS[kind])


def _class_names(module: Any) -> set[str]:
    return {one.__name__ for one in type(module).__mro__}


def _depths(places: Iterable[tuple[Kind, str]]) -> dict[tuple[Kind, str], int]:
    """The group by depth of each module of a kind: in their order, in groups of equal number."""
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
