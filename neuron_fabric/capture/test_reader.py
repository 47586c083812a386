# SPDX-License-Identifier: Apache-2.0
"""Tests of the reader of captures: the shipped capture, written captures, every kind of fault."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from neuron_fabric.capture import Capture, CaptureError, ModuleSpec, TensorSpec, write_capture
from neuron_fabric.capture.layout import MANIFEST
from neuron_fabric.capture.safetensors_io import write_tensors

REAL = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"
needs_real = pytest.mark.skipif(
    not REAL.is_dir(), reason="the shipped capture lies in the repository, not in the package"
)


def gradients(workers: int = 2) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    return {
        "a.weight": rng.standard_normal((workers, 3, 4)).astype(np.float32),
        "a.bias": rng.standard_normal((workers, 4)).astype(np.float32),
        "scale": rng.standard_normal((workers,)).astype(np.float32),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_capture(tmp_path / "c", "m", {3: gradients(), 60: gradients()})
    return tmp_path / "c"


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the manifest of a capture by ``change``; return the folder."""
    path = folder / "capture.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def fails(folder: Path, text: str, step: int | None = None) -> None:
    """Check that opening, or loading ``step``, gives one line that contains ``text``."""

    def attempt() -> None:
        capture = Capture.open(folder)
        if step is not None:
            capture.load(step)

    with pytest.raises(CaptureError) as caught:
        attempt()
    message = str(caught.value)
    assert text in message
    assert "\n" not in message
    assert message.count(": ") >= 1
    assert "; " in message


@needs_real
def test_the_real_capture() -> None:
    capture = Capture.open(REAL)
    assert (capture.world_size, capture.steps, len(capture.tensors)) == (8, (3, 60), 29)
    assert capture.model == "digits-resnet-w8"
    capture.verify()
    step = capture.load(60)
    assert list(step) == [spec.name for spec in capture.tensors]
    assert step["4.c2.weight"].shape == (8, 16, 16, 3, 3)
    assert step["4.c2.weight"].dtype == np.float32
    assert all(np.isfinite(value).all() for value in step.values())
    assert (step["8.bias"][0] != step["8.bias"][1]).any()


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_round_trip(tmp_path: Path, dtype: Literal["F32", "F16", "BF16"]) -> None:
    want = gradients()
    capture = write_capture(tmp_path / "c", "m", {5: want}, dtype, note="n", created="c")
    assert capture.tensors[0] == TensorSpec("a.weight", (3, 4), dtype)
    assert capture.tensor("scale").elements == 1
    got = capture.load(5)
    for name, value in want.items():
        tolerance = {"F32": 0.0, "F16": 2.0**-11, "BF16": 2.0**-8}[dtype]
        assert np.abs(got[name] - value).max() <= tolerance * np.abs(value).max()
        assert got[name].dtype == np.float32
    assert list(capture.load(5, ["scale"])) == ["scale"]


def test_the_writer_refuses_what_cannot_be_a_capture(tmp_path: Path) -> None:
    no_workers: list[dict[int, dict[str, Any]]] = [
        {},
        {1: {}},
        {1: {"a": 1.0}},
        {1: {"a": [1.0], "b": [1.0, 2.0]}},
    ]
    for bad in no_workers:
        with pytest.raises(ValueError, match="step"):
            write_capture(tmp_path / "c", "m", bad)
    with pytest.raises(ValueError, match="every step"):
        write_capture(tmp_path / "c", "m", {1: {"a": [1.0]}, 2: {"b": [1.0]}})


def test_missing_files(folder: Path) -> None:
    fails(folder / "none", "no such folder")
    shutil.rmtree(folder / "step-000060")
    fails(folder, "worker 0 of 2 is missing in step 60", 60)
    (folder / "step-000003" / "worker-001.safetensors").unlink()
    fails(folder, "worker 1 of 2 is missing in step 3", 3)
    (folder / "capture.json").unlink()
    fails(folder, "file is missing")


def test_what_is_no_file_is_refused_at_once(folder: Path) -> None:
    """Check that a FIFO in place of a file is refused, since opening it would block."""
    worker = folder / "step-000003" / "worker-001.safetensors"
    for path, step in ((worker, 3), (folder / MANIFEST, None)):
        path.unlink()
        os.mkfifo(path)
        fails(folder, "is a FIFO, not a file", step)


def test_one_name_twice_among_many_is_found_in_time(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    entry = manifest["tensors"][0]
    many = [{**entry, "name": f"t{number}"} for number in range(50_000)]
    manifest["tensors"] = [*many, {**entry, "name": "t49999"}]
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    start = time.process_time()
    fails(folder, "tensor 't49999' stands twice")
    assert time.process_time() - start < 30  # the quadratic search took minutes


def test_a_file_of_a_worker_that_the_manifest_does_not_have(folder: Path) -> None:
    path = folder / "step-000003" / "worker-002.safetensors"
    path.write_bytes((folder / "step-000003" / "worker-001.safetensors").read_bytes())
    fails(folder, "worker-002.safetensors: is of none of the 2 workers of the manifest", 3)


def test_truncated_files(folder: Path) -> None:
    path = folder / "step-000003" / "worker-001.safetensors"
    whole = path.read_bytes()
    for keep in (0, 7, 8, 40, len(whole) - 1):
        path.write_bytes(whole[:keep])
        fails(folder, "truncated", 3)
    manifest = folder / "capture.json"
    manifest.write_bytes(manifest.read_bytes()[:50])
    fails(folder, "malformed JSON")


@pytest.mark.parametrize("text", [b"", b"nonsense", b"\xff", b'{"a":1,"a":1}', b"[" * 99_999])
def test_malformed_manifest(folder: Path, text: bytes) -> None:
    (folder / "capture.json").write_bytes(text)
    fails(folder, "malformed JSON")


def test_manifest_of_another_kind(folder: Path) -> None:
    (folder / "capture.json").write_text("[]", encoding="utf-8")
    fails(folder, "no JSON object")


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": "x"}, "this is no capture"),
    "version": ({"version": 2}, "unknown version 2"),
    "version bool": ({"version": True}, "unknown version True"),
    "no workers": ({"world_size": 0}, "world_size is 0"),
    "65 workers": ({"world_size": 65}, "65 workers, the device takes 64"),
    "no steps": ({"steps": []}, "no step is whole"),
    "step range": ({"steps": [1_000_000]}, "outside 0..999999"),
    "step sign": ({"steps": [-1]}, "outside 0..999999"),
    "step twice": ({"steps": [3, 3]}, "a step stands twice"),
    "model": ({"model": 1}, "model: 1"),
    "no tensors": ({"tensors": []}, "tensors is empty"),
}


@pytest.mark.parametrize(("change", "text"), MANIFESTS.values(), ids=MANIFESTS.keys())
def test_bad_manifest(folder: Path, change: dict[str, Any], text: str) -> None:
    fails(edit(folder, lambda content: content.update(change)), text)


@pytest.mark.parametrize("key", ["format", "version", "world_size", "steps", "model", "tensors"])
def test_missing_keys(folder: Path, key: str) -> None:
    fails(edit(folder, lambda content: content.pop(key)), key if key != "format" else "no capture")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shape": [3, -4]}, "bad shape"),
        ({"shape": "3"}, "bad shape"),
        ({"shape": [3.0]}, "bad shape"),
        ({"dtype": "F64"}, "dtype 'F64'"),
        ({"dtype": None}, "dtype None"),
        ({"name": 5}, "no text"),
        ({"name": ""}, "no text"),
        ({"name": "a.bias"}, "'a.bias' stands twice"),
        ({"name": "__metadata__"}, "unsafe"),
        ({"name": "a\nb"}, "unsafe"),
        ({"name": "../../x"}, "unsafe"),
        ({"name": "a/../b"}, "unsafe"),
        ({"name": "/etc/x"}, "unsafe"),
        ({"name": "x" * 300}, "unsafe"),
    ],
)
def test_bad_tensor_entries(folder: Path, change: dict[str, Any], text: str) -> None:
    fails(edit(folder, lambda content: content["tensors"][0].update(change)), text)


def test_files_that_do_not_fit_the_manifest(folder: Path) -> None:
    path = folder / "step-000003" / "worker-001.safetensors"
    one = {name: value[0] for name, value in gradients().items()}
    write_tensors(path, {**one, "scale": np.zeros(2, dtype=np.float32)})
    fails(folder, "'scale' has shape [2], the manifest says []", 3)
    write_tensors(path, {**one, "scale": np.array(0, dtype=np.float16)})
    fails(folder, "'scale' has dtype F16, the manifest says F32", 3)
    write_tensors(path, {**one, "more": np.zeros(2, dtype=np.float32)})
    fails(folder, "'more' is not in the manifest", 3)
    del one["scale"]
    write_tensors(path, one)
    fails(folder, "'scale' is missing", 3)


def test_unknown_steps_and_tensors(folder: Path) -> None:
    fails(folder, "no step 4; the capture has 3, 60", 4)
    with pytest.raises(CaptureError, match="no tensor 'b'"):
        Capture.open(folder).load(3, ["b"])


MODULES = [
    {"name": "", "kind": "Net", "tensors": ["scale"]},
    {"name": "a", "kind": "Linear", "tensors": ["a.weight", "a.bias"], "head": True},
]


def test_modules_are_optional(folder: Path) -> None:
    assert "modules" not in json.loads((folder / "capture.json").read_text(encoding="utf-8"))
    assert Capture.open(folder).modules == ()
    modules = (
        ModuleSpec("", "Net", ("scale",)),
        ModuleSpec("a", "Linear", ("a.weight", "a.bias"), head=True),
    )
    edit(folder, lambda c: c.update(modules=MODULES, of_a_later_version=1))
    assert Capture.open(folder).modules == modules
    written = write_capture(folder, "m", {3: gradients()}, modules=modules)
    assert written.modules == modules
    assert json.loads((folder / "capture.json").read_text(encoding="utf-8"))["modules"] == MODULES


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.update(modules={}), "modules: an object"),
        (lambda c: c["modules"].pop(), "tensor 'a.weight' is in none of the modules"),
        (lambda c: c["modules"][0].update(kind=""), "kind of module name '' is no text"),
        (lambda c: c["modules"][0].update(kind="a\nb"), "unsafe kind of module name"),
        (lambda c: c["modules"][0].update(tensors=["x"]), "holds 'x', which is no tensor"),
        (lambda c: c["modules"][0].update(tensors=["scale"] * 2), "holds a tensor twice"),
    ],
)
def test_bad_modules(folder: Path, change: Callable[[dict[str, Any]], object], text: str) -> None:
    edit(folder, lambda c: c.update(modules=MODULES))
    fails(edit(folder, change), text)
