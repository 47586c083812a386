# SPDX-License-Identifier: Apache-2.0
"""Selection of steps, ranks and layers from texts."""

from __future__ import annotations

import pytest

from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.capture.selection import Numbers, Selection
from neuron_fabric.errors import CaptureError

TENSORS = [
    TensorSpec(name, (2,)) for name in ("conv.weight", "norm.weight", "fc.weight", "fc.bias")
]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", {0, 7, 999_999}, set()),
        ("3,60", {3, 60}, {0, 4, 59}),
        (" 3 , 5-7 ", {3, 5, 6, 7}, {4, 8}),
        ("0-1000:50", {0, 50, 1000}, {1, 49, 1050}),
    ],
)
def test_numbers(text: str, inside: set[int], outside: set[int]) -> None:
    numbers = Numbers.parse(text, "steps", 999_999)
    assert all(n in numbers for n in inside)
    assert not any(n in numbers for n in outside)


@pytest.mark.parametrize("text", ["x", "3,", "-1", "7-3", "0-9:0", "1000000", "3 4", "1:2"])
def test_bad_numbers(text: str) -> None:
    with pytest.raises(CaptureError, match="steps"):
        Numbers.parse(text, "steps", 999_999)


def test_selection_from_the_environment() -> None:
    found = Selection.from_environment({"NF_CAPTURE_RANKS": "0,2", "NF_CAPTURE_LAYERS": "fc.*, c*"})
    assert found.workers(4) == [0, 2]
    names = [spec.name for spec in found.tensors(TENSORS)]
    assert names == ["conv.weight", "fc.weight", "fc.bias"]  # the model's order
    assert Selection.from_environment({}) == Selection()
    assert Selection().workers(3) == [0, 1, 2]
    assert Selection().tensors(TENSORS) == TENSORS


def test_what_is_not_there() -> None:
    with pytest.raises(CaptureError, match="rank 4: there are 4 ranks"):
        Selection.parse(ranks="0-4").workers(4)
    with pytest.raises(CaptureError, match="layer 'fx': matches no parameter; the names are like"):
        Selection.parse(layers="fc.*,fx").tensors(TENSORS)
