# SPDX-License-Identifier: Apache-2.0
"""The reducer that a training names: `torch`, or `unix`, `unix:PATH` of a server; needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from neuron_fabric.codec import Route, lines_of
from neuron_fabric.errors import AttachError
from neuron_fabric.profile import Profile
from neuron_fabric.reducers.interface import Reducer
from neuron_fabric.reducers.server_session import ServerReducer, most_lines
from neuron_fabric.reducers.server_wire import DEFAULT, PREFIX, address
from neuron_fabric.reducers.torch_reducer import TorchReducer

TORCH = "torch"


def check_reducer(text: str) -> None:
    """Raise AttachError for an unknown reducer or a bad socket."""
    if text == DEFAULT or text.startswith(PREFIX):
        address(text)
    elif text != TORCH:
        what = f"reducer {text!r} is not one of {TORCH}, unix:PATH, {DEFAULT}"
        raise AttachError("attach", what, "choose one")


def reducer_of(
    text: str,
    profile: Profile,
    parameters: Mapping[str, tuple[int, str]],
    *,
    ordered: bool,
    digest: str,
    timeout_s: float,
) -> Reducer:
    """Return the reducer that a training names, not open yet.

    Args:
        text: "torch", "unix" or "unix:PATH".
        profile: profile of the training.
        parameters: elements and region by parameter.
        ordered: FP32 gradients use the reducer too.
        digest: digest of all that the ranks agree on.
        timeout_s: time-out in seconds.
    """
    if text == TORCH:
        return TorchReducer(timeout_s)
    widest = {
        region.name: max(
            (how.route for how in region.phases.values() if how.route != Route.FP32),
            key=lambda route: route.bits,
            default=Route.G_BINARY,
        )
        for region in profile.regions
    }
    votes = [lines_of(n, widest.get(region, Route.G_BINARY)) for n, region in parameters.values()]
    full = sum(lines_of(n, Route.FP32) for n, _ in parameters.values()) if ordered else 0
    samples = full + len(parameters)  # each from a new line
    return ServerReducer(
        address(text),
        most_lines(votes, full + samples if ordered else 0),
        digest,
        timeout_s,
        sorted({*_low(profile)}, key=list(Route).index),
    )


def _low(profile: Profile) -> Iterator[Route]:
    """Yield the low-bit routes of all regions and phases."""
    for region in profile.regions:
        yield from (how.route for how in region.phases.values() if how.route != Route.FP32)
