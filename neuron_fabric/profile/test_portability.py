# SPDX-License-Identifier: Apache-2.0
"""Tests of kinds and regions of models, and of a profile used for changed models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from neuron_fabric.codec import Route  # noqa: E402
from neuron_fabric.profile import (  # noqa: E402
    Kind,
    PhaseRoute,
    Profile,
    ProfileError,
    Region,
    fingerprint,
    sketch,
    traced_head,
)
from neuron_fabric.profile.draft_profile import auto_profile, draft, with_routes  # noqa: E402
from neuron_fabric.profile.portability import (  # noqa: E402
    Binding,
    Conditions,
    bind_parameters,
    fit,
    sketch_for,
)
from neuron_fabric.profile.profile_types import FULL, Assign, ModelId, ValidFor  # noqa: E402


class Block(nn.Module):
    """Residual block of the test network."""

    def __init__(self, width: int, kernel: int = 3) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.conv = nn.Conv2d(width, width, kernel, padding=kernel // 2)

    def forward(self, x: Any) -> Any:
        return x + self.conv(self.norm(x).relu())


class Net(nn.Module):
    """Convolutional classifier of images."""

    def __init__(self, width: int = 16, classes: int = 100, blocks: int = 3, kernel: int = 3):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(width, kernel) for _ in range(blocks)))
        self.head = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Text(nn.Module):
    """Transformer with an LM head, tied to the embedding; its matrix is used without the module."""

    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.wte = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 2, 64, batch_first=True) for _ in range(2)
        )
        self.final_norm = nn.LayerNorm(32)
        self.lm_head = nn.Linear(32, 64, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, x: Any) -> Any:
        y = self.wte(x)
        for layer in self.layers:
            y = layer(y)
        return nn.functional.linear(self.final_norm(y), self.lm_head.weight)


def profile_of(model: nn.Module, *inputs: Any) -> Profile:
    """Return a profile as from a calibration of this model, verified for W 4 to 16 and SGD.

    Convolutions use G_BINARY.
    """
    valid = ValidFor((4, 16), (8, 32), 1, "SGD(momentum=0.9)", False, "off")
    profile = draft("net", sketch(model, traced_head(model, *inputs)), valid)
    low = PhaseRoute(Route.G_BINARY)
    profile = with_routes(profile, lambda one: low if one.kind == Kind.CONV else None)
    return dataclasses.replace(profile, verified=True)


def bind(profile: Profile, model: nn.Module) -> Binding:
    """Assign the parameters of a model to the regions of a profile."""
    return bind_parameters(profile, sketch_for(profile, model))


IMAGE = torch.zeros(1, 1, 8, 8)
NET = profile_of(Net(), IMAGE)
HERE = Conditions(8, 16, 1, "SGD(momentum=0.9)", False, "off")


def test_kinds_of_a_convolutional_net() -> None:
    kinds = {one.name: one.region for one in sketch(Net(), traced_head(Net(), IMAGE))}
    assert kinds["head.weight"] == kinds["head.bias"] == "head"
    assert kinds["stem.weight"] == kinds["blocks.0.conv.weight"] == "conv.0"
    assert [kinds[f"blocks.{n}.conv.weight"] for n in (1, 2)] == ["conv.1", "conv.2"]
    assert kinds["blocks.0.norm.weight"] == "norm"
    assert kinds["blocks.0.conv.bias"] == "bias"


def test_a_tied_head_is_one_parameter() -> None:
    model = Text()
    head = traced_head(model, torch.zeros(1, 3, dtype=torch.long))
    assert head == ("wte.weight",)
    found = {one.name: one for one in sketch(model, head)}
    assert found["wte.weight"].kind == Kind.HEAD
    assert found["wte.weight"].names == ("wte.weight", "lm_head.weight")
    assert "lm_head.weight" not in found
    by_other_name = sketch(model, ["lm_head.weight"])
    assert by_other_name == sketch(model, head)
    assert sketch(model)[0].kind == Kind.EMBEDDING  # and a linear layer's, which comes later
    assert found["layers.0.self_attn.in_proj_weight"].region == "attention.0"
    assert found["layers.1.self_attn.out_proj.weight"].region == "attention.1"
    assert found["layers.0.linear1.weight"].region == "linear.0"
    assert found["final_norm.weight"].kind == Kind.NORM
    untied = {one.name: one.kind for one in sketch(Text(tied=False), ["lm_head.weight"])}
    assert untied["wte.weight"] == Kind.EMBEDDING
    assert untied["lm_head.weight"] == Kind.HEAD


def of_class(name: str, **shapes: tuple[int, ...]) -> nn.Module:
    """Return a module whose class has this name, with parameters of these shapes."""
    made: nn.Module = type(name, (nn.Module,), {})()
    for parameter, shape in shapes.items():
        made.register_parameter(parameter, nn.Parameter(torch.ones(shape)))
    return made


def test_kinds_of_other_classes() -> None:
    attention = of_class("GPT2Attention")
    attention.c_attn = of_class("Conv1D", weight=(4, 12), bias=(12,))
    model = nn.Sequential(
        of_class("FancyNorm", weight=(4,)),
        of_class("ConvOfMine", weight=(4, 4, 3)),
        # Of transformers: a linear layer, with its matrix transposed.
        of_class("Conv1D", weight=(4, 12), bias=(12,)),
        attention,
        of_class("Odd", table=(4, 4), gate=()),
        nn.LSTM(4, 4),
        nn.EmbeddingBag(4, 4),
    )
    kinds = [one.kind for one in sketch(model)]
    assert kinds[:4] == [Kind.NORM, Kind.CONV, Kind.LINEAR, Kind.BIAS]
    assert kinds[4:8] == [Kind.ATTENTION, Kind.BIAS, Kind.REST, Kind.BIAS]
    assert kinds[8:10] == [Kind.RECURRENT] * 2
    assert kinds[-1] == Kind.EMBEDDING
    with pytest.raises(ProfileError, match="uses no weight of two dimensions"):
        traced_head(nn.LayerNorm(4), torch.zeros(4))


def test_binding_in_the_order_of_the_parameters() -> None:
    model = Net()
    regions = bind(NET, model).regions
    assert list(regions) == [name for name, _ in model.named_parameters()]
    assert (regions["stem.weight"].name, regions["head.bias"].name) == ("conv.0", "head")


def test_binding_by_kind_where_there_is_no_glob() -> None:
    """Check the assignment to regions without globs: by kind, and by depth for a numbered region.

    Frozen parameters are left out.
    """
    regions = tuple(
        Region(name, kind, (), 0, {"steady": FULL})
        for name, kind in (("conv.2", Kind.CONV), ("norm", Kind.NORM), ("all", Kind.LINEAR))
    )
    profile = Profile("kinds", ModelId("", 0), regions)
    model = Net()
    model.blocks[0].norm.weight.requires_grad_(False)
    binding = bind(profile, model)
    assert [one.name for one in binding.members("conv.2")] == ["blocks.2.conv.weight"]
    assert "blocks.0.norm.weight" not in (*binding.regions, *binding.extra)
    assert binding.regions["head.weight"].name == "all"
    assert binding.extra[0] == "stem.weight"


def bound(*regions: tuple[str, str]) -> Callable[[], object]:
    """Return a function that assigns a Net's parameters to regions given by (name, glob)."""
    made = tuple(Region(name, Kind.CONV, (glob,), 0, {"steady": FULL}) for name, glob in regions)
    return lambda: bind(Profile("p", ModelId("", 0), made), Net())


def test_bad_globs() -> None:
    with pytest.raises(ProfileError, match=r"'x.*' of region 'a' matches no parameter of this"):
        bound(("a", "x.*"))()
    with pytest.raises(ProfileError, match=r"stem.weight is in regions 'a' and 'b'; leave it to"):
        bound(("a", "stem.*"), ("b", "*.weight"))()


@given(st.data(), st.integers(0, 1))
@settings(max_examples=40, deadline=None)
def test_slices_and_what_they_leave(data: st.DataObject, axis: int) -> None:
    """Check the pieces of a weight of which drawn ranges are in regions: they fill the weight.

    Those that no region names are left without one, or go to the region of the whole.
    """
    model, before = Net(), ":, " * axis
    size = model.head.weight.shape[axis]
    drawn = st.lists(st.integers(0, size), min_size=2, max_size=6, unique=True).map(sorted)
    ends = data.draw(drawn)
    named = list(zip(ends[::2], ends[1::2], strict=False))
    made = tuple(
        Region(f"{n}", Kind.LINEAR, (f"h*.weight[{before}{a or ''}:{b}]",), 0, {"steady": FULL})
        for n, (a, b) in enumerate(named)
    )
    profile = Profile("p", ModelId("", 0), made)
    binding = bind(profile, model)
    wanted = {f"head.weight[{before}{a}:{b}]": f"{n}" for n, (a, b) in enumerate(named)}
    assert {name: one.name for name, one in binding.regions.items()} == wanted
    pieces = [one for one in binding.parameters if one.name.startswith("head.weight")]
    assert sum(one.elements for one in pieces) == model.head.weight.numel()
    assert {one.name for one in pieces} - {*wanted} <= {*binding.extra}
    by_kind = Region("rest", Kind.LINEAR, (), 0, {"steady": FULL})
    both = bind(dataclasses.replace(profile, regions=(*made, by_kind)), model)
    rest = {name for name, one in both.regions.items() if one.name == "rest"}
    assert rest == {one.name for one in pieces} - {*wanted}
    assert fit(profile, model).binding.members("0")[0].kind == Kind.LINEAR


BAD_SLICES = {
    "overlap": ("stem.weight[0:5]", "*.weight[4:]", "slices [0:5] and [4:16] overlap; mend"),
    "rows and columns": ("stem.weight[0:5]", "stem.weight[:, 0:1]", "and [:, 0:1] overlap"),
    "beyond": ("stem.weight[0:17]", "head.*", "[0:17] is not within its shape [16, 1, 3, 3]"),
    "begins beyond": ("stem.weight[16:]", "head.*", "[16:] is not within its shape"),
    "no dimension": ("stem.bias[:, 0:2]", "head.*", "[:, 0:2] is not within its shape [16]"),
    "whole": ("stem.weight[0:5]", "stem.*", "stem.weight[0:5] is in regions 'a' and 'b'; leave"),
    "the same": ("stem.weight[0:5]", "s*.weight[:5]", "weight[0:5] is in regions 'a' and 'b'"),
    "no name": ("x.weight[0:5]", "head.*", "match 'x.weight[0:5]' of region 'a' matches no param"),
}


@pytest.mark.parametrize(("one", "other", "text"), BAD_SLICES.values(), ids=BAD_SLICES.keys())
def test_bad_slices(one: str, other: str, text: str) -> None:
    with pytest.raises(ProfileError) as caught:
        bound(("a", one), ("b", other))()
    assert text in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_region_of_the_whole_may_name_a_slice_too() -> None:
    regions = (Region("a", Kind.CONV, ("stem.*", "stem.weight[0:5]"), 0, {"steady": FULL}),)
    found = bind(Profile("p", ModelId("", 0), regions), Net()).regions
    assert list(found) == ["stem.weight[0:5]", "stem.weight[5:16]", "stem.bias"]


def altered(change: Callable[[Net], object]) -> Callable[[], Net]:
    """Return a function that makes a Net and applies ``change`` to it."""

    def made() -> Net:
        net = Net()
        change(net)
        return net

    return made


WITH_MORE = altered(lambda net: net.add_module("aux", nn.Linear(8, 8)))
MARKED = {
    "wider": (lambda: Net(24), "has 5,400 elements, 2,448 were calibrated"),
    "classes": (lambda: Net(classes=50), "region 'head' has 850 elements, 1,700 were calibrated"),
    "dtype": (altered(lambda net: net.to(torch.bfloat16)), "fingerprint is another"),
    "frozen bias": (
        altered(lambda net: net.stem.weight.requires_grad_(False)),
        "region 'conv.0' has 2,304 elements",
    ),
    "more": (WITH_MORE, "fingerprint is another"),
    "order": (
        altered(lambda net: net.add_module("stem", net._modules.pop("stem"))),
        "fingerprint is another",
    ),
    "kernel": (lambda: Net(kernel=5), "elements, 2,448 were calibrated"),
}
REFUSED = {
    "head renamed": (
        altered(lambda net: net.add_module("classifier", net._modules.pop("head"))),
        "match 'head.weight' of region 'head' matches no",
    ),
    "four times wider": (lambda: Net(64), "more than 4 times apart"),
    "other kind": (
        altered(lambda net: net.blocks[1].add_module("conv", nn.Linear(48, 48))),
        "region 'conv.1' is of kind linear here, conv was calibrated",
    ),
    "a block less": (lambda: Net(blocks=2), "match 'blocks.2.conv.bias' of region 'bias'"),
    "another net": (lambda: Text(), "matches no parameter of this model"),
}


def test_the_same_model_is_used() -> None:
    found = fit(NET, Net(), HERE, strict=True)
    assert (found.reasons, found.notes) == ((), ())
    assert not fit(NET, nn.Sequential(Net())[0]).unverified  # conditions are not known
    with torch.device("meta"):
        assert not fit(NET, Net(), HERE, strict=True).unverified


@pytest.mark.parametrize("name", [one.name for one in dataclasses.fields(ValidFor)])
def test_strict_asks_for_every_condition(name: str) -> None:
    """Check that strict refuses a training with an unknown condition that the profile lists."""
    here = dataclasses.replace(HERE, **{name: None})
    with pytest.raises(ProfileError, match=rf"calibrated for {name} .*, and this .* is not told"):
        fit(NET, Net(), here, strict=True)
    free = dataclasses.replace(NET.valid_for, **{name: None})
    assert fit(dataclasses.replace(NET, valid_for=free), Net(), here, strict=True).reasons == ()


@pytest.mark.parametrize(("model", "text"), MARKED.values(), ids=MARKED.keys())
def test_an_altered_model_is_unverified(model: Callable[[], nn.Module], text: str) -> None:
    found = fit(NET, model())
    assert found.unverified
    assert text in found.reasons[0]
    with pytest.raises(ProfileError, match=r"profile 'net': .*; calibrate for this training"):
        fit(NET, model(), strict=True)


@pytest.mark.parametrize(("model", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_an_altered_model_is_refused(model: Callable[[], nn.Module], text: str) -> None:
    with pytest.raises(ProfileError) as caught:
        fit(NET, model())
    assert text in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_more_parameters_are_named_once() -> None:
    found = fit(NET, WITH_MORE())
    assert found.notes == ("2 parameters of no region go in FP32: aux.weight, aux.bias",)


def test_a_missing_kind_is_refused() -> None:
    region = Region("recurrent", Kind.RECURRENT, (), 10, {"steady": FULL})
    with pytest.raises(ProfileError, match="'recurrent' is missing: no trainable parameter of it"):
        fit(Profile("p", ModelId("", 0), (region,)), Net())
    model = Net()
    model.head.requires_grad_(False)
    with pytest.raises(ProfileError, match="'head' is missing: no trainable parameter of it"):
        fit(NET, model)


OUTSIDE = {
    "world": (Conditions(world_size=3), "world_size is 3, calibrated for 4 to 16"),
    "batch": (Conditions(batch_per_worker=64), "batch_per_worker is 64, calibrated for 8 to 32"),
    "steps": (Conditions(accumulation=2), "accumulation is 2, calibrated for 1"),
    "optimizer": (Conditions(optimizer="AdamW"), "optimizer is AdamW, calibrated for SGD(momen"),
    "clipping": (Conditions(clipping=True), "clipping is true, calibrated for false"),
    "amp": (Conditions(amp="bf16"), "amp is bf16, calibrated for off"),
}


@pytest.mark.parametrize(("here", "text"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_outside_of_what_it_is_valid_for(here: Conditions, text: str) -> None:
    (reason,) = fit(NET, Net(), here).reasons
    assert text in reason
    with pytest.raises(ProfileError, match=r"is .*, calibrated for"):
        fit(NET, Net(), here, strict=True)


def test_a_profile_that_was_never_verified() -> None:
    found = fit(dataclasses.replace(NET, verified=False), Net())
    assert found.reasons == ("it was never verified",)


def test_routes_and_scales_that_cannot_be() -> None:
    def net(how: PhaseRoute) -> Profile:
        phases = {"warmup": FULL, "steady": how}
        regions = (*NET.regions[1:], dataclasses.replace(NET.regions[0], phases=phases))
        return dataclasses.replace(NET, regions=regions)

    assert not fit(net(PhaseRoute(Route.G_INT4)), Net()).unverified
    fixed = net(PhaseRoute(Route.G_BINARY, scale="fixed:0.002"))
    assert not fit(fixed, Net()).unverified
    with pytest.raises(ProfileError, match=r"has scale fixed:0.002, which does not follow the los"):
        fit(fixed, Net(), Conditions(grad_scaler=True))


def test_the_fingerprint_sees_every_property() -> None:
    one = sketch(Net())[0]
    changes: list[dict[str, Any]] = [
        {"name": "x"},
        {"shape": (1,)},
        {"dtype": "float16"},
        {"trainable": False},
        {"kind": Kind.HEAD},
        {"names": ("a", "b")},
    ]
    prints = {fingerprint([dataclasses.replace(one, **change)]) for change in ({}, *changes)}
    assert len(prints) == 1 + len(changes)
    assert fingerprint(sketch(Net())) == fingerprint(sketch(Net()))  # not what they hold


def test_auto_has_codes_where_a_tensor_is_large() -> None:
    """Check the routes of "auto": G_INT4 for convolutions, G_INT8 otherwise, FP32 if small."""
    net = Net()
    found = fit(auto_profile(net), net)
    assert found.unverified
    assert not found.binding.extra
    routes = {one.name: str(one.phases["steady"].route) for one in auto_profile(net).regions}
    low = {"conv.0": "G_INT4", "conv.1": "G_INT4", "conv.2": "G_INT4", "linear.0": "G_INT8"}
    assert routes == {**low, "norm": "FP32", "bias": "FP32"}
    text = {one.name: str(one.phases["steady"].route) for one in auto_profile(Text()).regions}
    assert text["embedding"] == "G_INT8"


def test_adaptive_may_lose_more_where_most_elements_are_convolutions() -> None:
    """Check that a network of convolutions has the error of G_INT4 as its budget, others a quarter.

    Net has more elements in convolutions than in its other large tensors; with a wide head it has
    not. "auto" has no budget.
    """
    wide = Net()
    wide.head = nn.Linear(4096, 64)
    assert auto_profile(Net()).rule.assign is None
    found = [auto_profile(net, adaptive=True).rule.assign for net in (Net(), wide, Text())]
    assert found == [Assign(budget=1.01), Assign(budget=0.25), Assign(budget=0.25)]
