# SPDX-License-Identifier: Apache-2.0
"""Networks as tables of tensor shapes, with the role of each tensor: head, embedding, norm,
bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from neuron_fabric.capture import Capture, ModuleSpec, TensorSpec
from verif.replay.plan import layer_of
from verif.replay.source import resnet18


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


def resnet50() -> Network:
    """Return ResNet-50 for ImageNet, 1,000 classes."""
    out: list[Tensor] = []

    def convolution(name: str, channels: int, inputs: int, kernel: int) -> None:
        out.append(Tensor(f"{name}.weight", (channels, inputs, kernel, kernel), Role.WEIGHT))
        out.extend(Tensor(f"{name}.norm.{leaf}", (channels,), Role.NORM) for leaf in _AFFINE)

    convolution("conv1", 64, 3, 7)
    inputs = 64
    for layer, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            prefix = f"layer{layer}.{block}"
            convolution(f"{prefix}.conv1", width, inputs, 1)
            convolution(f"{prefix}.conv2", width, width, 3)
            convolution(f"{prefix}.conv3", 4 * width, width, 1)
            if block == 0:
                convolution(f"{prefix}.shortcut", 4 * width, inputs, 1)
            inputs = 4 * width
    out += _linear("fc", 1000, inputs)
    return Network("ResNet-50 (ImageNet)", _heads(out, "fc."))


def distilbert() -> Network:
    """Return DistilBERT with a classifier of two classes."""
    width, inner = 768, 3072
    out = [
        Tensor("embeddings.word.weight", (30_522, width), Role.EMBEDDING),
        Tensor("embeddings.position.weight", (512, width), Role.EMBEDDING),
        *_norm("embeddings.norm", width),
    ]
    for layer in range(6):
        for part in ("q", "k", "v", "out"):
            out += _linear(f"layer{layer}.attention.{part}", width, width)
        out += _norm(f"layer{layer}.norm1", width)
        out += _linear(f"layer{layer}.ffn.lin1", inner, width)
        out += _linear(f"layer{layer}.ffn.lin2", width, inner)
        out += _norm(f"layer{layer}.norm2", width)
    out += [*_linear("pre_classifier", width, width), *_linear("classifier", 2, width)]
    return Network("DistilBERT (2 classes)", _heads(out, "classifier."))


def language_model() -> Network:
    """Return a decoder of 1.3 B parameters: 24 layers, width 2,048, 50,257 tokens, 2,048 positions;
    the output head is tied to the token embedding.
    """
    width, tokens, positions = 2048, 50_257, 2048
    out = [
        Tensor("tokens.weight", (tokens, width), Role.HEAD),
        Tensor("positions.weight", (positions, width), Role.EMBEDDING),
    ]
    for layer in range(24):
        out += _norm(f"layer{layer}.norm1", width)
        out += _linear(f"layer{layer}.attention.qkv", 3 * width, width)
        out += _linear(f"layer{layer}.attention.out", width, width)
        out += _norm(f"layer{layer}.norm2", width)
        out += _linear(f"layer{layer}.mlp.up", 4 * width, width)
        out += _linear(f"layer{layer}.mlp.down", width, 4 * width)
    out += _norm("norm", width)
    return Network("LM 1.3 B (24 layers, width 2,048, tied head)", tuple(out))


_AFFINE = ("weight", "bias")


def _linear(name: str, outputs: int, inputs: int) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (outputs, inputs), Role.WEIGHT)
    yield Tensor(f"{name}.bias", (outputs,), Role.BIAS)


def _norm(name: str, width: int) -> Iterator[Tensor]:
    return (Tensor(f"{name}.{leaf}", (width,), Role.NORM) for leaf in _AFFINE)


def _heads(tensors: Sequence[Tensor], prefix: str) -> tuple[Tensor, ...]:
    """Return the tensors, with those that begin with the prefix as the head."""
    return tuple(
        Tensor(one.name, one.shape, Role.HEAD if one.name.startswith(prefix) else one.role)
        for one in tensors
    )


NETWORKS: dict[str, Network] = {
    "resnet18": resnet18_cifar(10),
    "resnet18-100": resnet18_cifar(100),
    "resnet50": resnet50(),
    "distilbert": distilbert(),
    "lm": language_model(),
}
"""Networks by the word for `--network`."""
