# SPDX-License-Identifier: Apache-2.0
"""What is worth a warning before a capture is driven: routes that are a guess, tensors of zeros.

spec: capture spec, "From tensors to lines".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from models.formats import F32, Mode
from neuron_fabric.capture import Capture
from verif.replay.routing import RoutePattern, layer_of

_EMBEDDINGS = {"wte", "wpe", "tok", "pos"}
_HEADS = {"classifier", "logits", "output", "fc_out"}


def route_doubts(
    capture: Capture, routes: Mapping[str, Mode], patterns: Sequence[RoutePattern] = ()
) -> list[str]:
    """Lines on default routes that may be wrong: the capture does not tell its modules, and its
    names speak against the rule that the last layer is the head.

    Tensors that a pattern matches are as they were asked for.
    """
    if capture.modules:
        return []
    guessed = [
        spec
        for spec in capture.tensors
        if routes[spec.name].low_bit
        and not any(fnmatchcase(spec.name, pattern.glob) for pattern in patterns)
    ]
    if not guessed:
        return []
    out = []
    whole = [s for s in capture.tensors if len(s.shape) > 1 and routes[s.name] == Mode.FP32]
    if not whole:
        last = layer_of(capture.tensors[-1].name)
        out.append(
            f"the capture does not tell which layer is the head, and its last layer {last!r} has "
            "no weight matrix: none goes by FP32"
        )
    for word, looks_like in (("an embedding", _like_embedding), ("a head", _like_head)):
        like = [spec.name for spec in guessed if looks_like(_layer_word(spec.name))]
        if like:
            more = f" (and {len(like) - 1} more)" if len(like) > 1 else ""
            out.append(
                f"tensor {like[0]!r}{more} is named like {word} and goes by "
                f"{routes[like[0]].name}; if it is one: --route '{like[0]}=FP32'"
            )
    return out


def _layer_word(name: str) -> str:
    return layer_of(name).rpartition(".")[2].lower()


def _like_embedding(layer: str) -> bool:
    return "embed" in layer or layer in _EMBEDDINGS


def _like_head(layer: str) -> bool:
    return layer.endswith("head") or layer in _HEADS


@dataclass
class ZeroTensors:
    """Tensors without any value but 0, of which a binary vote makes +1 everywhere."""

    found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, step: int, worker: int, name: str) -> None:
        """One worker's tensor in one step."""
        self.found.setdefault(name, []).append((step, worker))

    def look(
        self,
        step: int,
        gradients: Mapping[str, F32],
        routes: Mapping[str, Mode],
        first_worker: int = 0,
    ) -> None:
        """Find those of a step, name to float32[W, *shape], that go by G_BINARY."""
        for name, values in gradients.items():
            if routes[name] == Mode.G_BINARY and values.size:
                for worker, one in enumerate(values, first_worker):
                    if not one.any():
                        self.add(step, worker, name)

    def lines(self) -> list[str]:
        """One a tensor."""
        out = []
        for name, places in self.found.items():
            (step, worker), more = places[0], len(places) - 1
            others = f" (and {more:,} times more)" if more else ""
            out.append(
                f"tensor {name!r} is zero everywhere in step {step} of worker {worker}{others}: "
                "unused there? By G_BINARY each of its elements votes +"
            )
        return out
