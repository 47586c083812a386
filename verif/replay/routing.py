# SPDX-License-Identifier: Apache-2.0
"""Which path each tensor takes, and the check that it can.

spec: capture spec, "From tensors to lines". Patterns are ``name-glob=route``; the first match wins;
what matches nothing takes the layer-aware default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from models.line_packing import Mode
from neuron_fabric.capture import ModuleSpec, TensorSpec
from neuron_fabric.errors import CaptureError

ROUTES = {mode.name: mode for mode in Mode if mode != Mode.IDENTITY and not mode.optional}


@dataclass(frozen=True)
class RoutePattern:
    """``glob`` (case-sensitive, as fnmatch) sends matching tensors by ``mode``."""

    glob: str
    mode: Mode


def parse_route(text: str) -> RoutePattern:
    """``name-glob=route``, split at the last ``=``; CaptureError when it is not that."""
    glob, separator, route = text.rpartition("=")
    glob, route = glob.strip(), route.strip().upper()
    if not separator or not glob or route not in ROUTES:
        raise CaptureError(
            f"route {text!r}",
            "not understood",
            f"write NAME-GLOB=ROUTE with one of {', '.join(ROUTES)}",
        )
    return RoutePattern(glob, ROUTES[route])


def parse_routes(texts: Sequence[str]) -> tuple[RoutePattern, ...]:
    """Patterns in order of precedence."""
    return tuple(parse_route(text) for text in texts)


def layer_of(name: str) -> str:
    """The layer prefix of a tensor name; a name without a dot is its own layer."""
    return name.rpartition(".")[0] or name


def tied_tensors(modules: Sequence[ModuleSpec]) -> list[str]:
    """Tensors that several modules hold."""
    held = Counter(name for module in modules for name in module.tensors)
    return [name for name, times in held.items() if times > 1]


def default_routes(
    tensors: Sequence[TensorSpec], modules: Sequence[ModuleSpec] = ()
) -> dict[str, Mode]:
    """Layer-aware default. FP32 for every tensor of <= 1 dimension, and by kind where ``modules``
    are known: the head, what is tied, embeddings, norms and biases. Where they are not, for the
    last layer, which is that of the last tensor in manifest order. The rest by G_BINARY.
    """
    if modules:
        kept = {s.name for s in tensors if "bias" in s.name.rpartition(".")[2]}
        kept.update(tied_tensors(modules))
        for module in modules:
            if module.head or module.is_norm or module.is_embedding:
                kept.update(module.tensors)
    else:
        last = layer_of(tensors[-1].name) if tensors else ""
        # Only the layer's own tensors: a sub-module below the same prefix is another layer.
        kept = {spec.name for spec in tensors if layer_of(spec.name) == last}
    return {
        spec.name: Mode.FP32 if spec.name in kept or len(spec.shape) <= 1 else Mode.G_BINARY
        for spec in tensors
    }


def assign_routes(
    tensors: Sequence[TensorSpec],
    patterns: Sequence[RoutePattern] = (),
    modules: Sequence[ModuleSpec] = (),
) -> dict[str, Mode]:
    """Route of every tensor, in manifest order; ``modules`` as for `default_routes`.

    CaptureError for a pattern that no tensor's name matches: it is a typing error, and the tensor
    that was meant would silently take the default.
    """
    routes = default_routes(tensors, modules)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern.glob) for name in routes):
            raise CaptureError(
                f"route {pattern.glob}={pattern.mode.name}",
                "matches no tensor",
                f"the names are like {tensors[0].name!r}" if tensors else "there are no tensors",
            )
    for name, default in routes.items():
        chosen = (one.mode for one in patterns if fnmatchcase(name, one.glob))
        routes[name] = next(chosen, default)
    return routes
