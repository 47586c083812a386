# SPDX-License-Identifier: Apache-2.0
"""Routes of tensors: patterns of the user, defaults by layer, and warnings about guessed ones.

A pattern is ``name-glob=route``; the first match is used, then the layer-aware default.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from models.modes import Mode, lines_needed
from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec
from neuron_fabric.capture.layout import tied_tensors
from neuron_fabric.errors import CaptureError

ROUTES = {mode.name: mode for mode in Mode if mode != Mode.IDENTITY and not mode.optional}
RoutePattern = tuple[str, Mode]
"""Glob (case-sensitive fnmatch), and the mode of tensors that match it."""


def parse_route(text: str) -> RoutePattern:
    """Return glob and mode of a text ``name-glob=route``, which is split at the last ``=``.

    Raises:
        CaptureError: The text is malformed, or names no route.
    """
    glob, separator, route = text.rpartition("=")
    glob, route = glob.strip(), route.strip().upper()
    if not separator or not glob or route not in ROUTES:
        todo = f"write NAME-GLOB=ROUTE with one of {', '.join(ROUTES)}"
        raise CaptureError(f"route {text!r}", "not understood", todo)
    return glob, ROUTES[route]


def parse_routes(texts: Sequence[str]) -> tuple[RoutePattern, ...]:
    """Return glob and mode of each text ``name-glob=route``; the first has the highest
    precedence.
    """
    return tuple(parse_route(text) for text in texts)


def layer_of(name: str) -> str:
    """Return a tensor's name without the part after the last dot; a name without a dot stays."""
    return name.rpartition(".")[0] or name


def default_routes(
    tensors: Sequence[TensorSpec], modules: Sequence[ModuleSpec] = ()
) -> dict[str, Mode]:
    """Return the default route of every tensor by name: FP32 or G_BINARY.

    FP32 are tensors of at most one dimension, and with known modules the head, shared tensors,
    embeddings, norms and biases. Without modules all tensors of the last tensor's layer are FP32,
    since that layer is taken for the head.
    """
    if modules:
        kept = {s.name for s in tensors if "bias" in s.name.rpartition(".")[2]}
        kept.update(tied_tensors(modules))
        for module in modules:
            if module.head or module.is_norm or module.is_embedding:
                kept.update(module.tensors)
    else:
        last = layer_of(tensors[-1].name) if tensors else ""
        # Tensors of sub-modules with the same prefix belong to other layers.
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
    """Return the route of every tensor by name, in the order of the manifest.

    Args:
        tensors: All tensors.
        patterns: Globs with their routes; the first that matches a name decides, else the default.
        modules: Modules of the model, if the capture names them.

    Raises:
        CaptureError: A pattern matches no tensor. It is a typing error, and the tensor that was
            meant would silently get its default route.
    """
    routes = default_routes(tensors, modules)
    for glob, mode in patterns:
        if not any(fnmatchcase(name, glob) for name in routes):
            todo = f"the names are like {tensors[0].name!r}" if tensors else "there are no tensors"
            raise CaptureError(f"route {glob}={mode.name}", "matches no tensor", todo)
    for name, default in routes.items():
        chosen = (mode for glob, mode in patterns if fnmatchcase(name, glob))
        routes[name] = next(chosen, default)
    return routes


# Match the last word of the layer in lower case.
_EMBEDDING = re.compile(r"embed[^.]*$|(^|\.)(wte|wpe|tok|pos)$")
_HEAD = re.compile(r"head$|(^|\.)(classifier|logits|output|fc_out)$")


def route_warnings(
    capture: Capture, routes: Mapping[str, Mode], patterns: Sequence[RoutePattern] = ()
) -> list[str]:
    """Return warnings about default routes that were guessed, one line each.

    If a capture does not name its modules, the last layer is taken for the head. A warning is given
    for each kind of low-bit tensor whose name contradicts that, unless a pattern chose its route.

    Args:
        capture: Open capture.
        routes: Route of each tensor by name.
        patterns: Globs with routes that the user gave.
    """
    if capture.modules:
        return []
    guessed = [
        spec
        for spec in capture.tensors
        if routes[spec.name].low_bit
        and not any(fnmatchcase(spec.name, glob) for glob, _ in patterns)
    ]
    if not guessed:
        return []
    out = []
    whole = [s for s in capture.tensors if len(s.shape) > 1 and routes[s.name] == Mode.FP32]
    if not whole:
        last = layer_of(capture.tensors[-1].name)
        out.append(
            f"the capture does not name its head, and its last layer {last!r} has no weight "
            "matrix: no matrix is sent as FP32"
        )
    for word, looks_like in (("an embedding", _EMBEDDING), ("a head", _HEAD)):
        like = [spec.name for spec in guessed if looks_like.search(layer_of(spec.name).lower())]
        if like:
            more = f" (and {len(like) - 1} more)" if len(like) > 1 else ""
            out.append(
                f"tensor {like[0]!r}{more} is named like {word} and takes "
                f"{routes[like[0]].name}; if it is one: --route '{like[0]}=FP32'"
            )
    return out


def route_lines(tensors: Sequence[TensorSpec], routes: Mapping[str, Mode]) -> dict[Mode, int]:
    """Return the number of lines per worker by route; routes without a tensor are left out."""
    out: Counter[Mode] = Counter()
    for spec in tensors:
        out[routes[spec.name]] += lines_needed(spec.elements, routes[spec.name])
    return out
