# SPDX-License-Identifier: Apache-2.0
"""Tests of the writer of captures, and of the selection of steps, ranks and layers.

The reader must return every capture, and ignore incomplete steps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.capture import Capture
from neuron_fabric.capture.layout import TensorSpec, worker_file
from neuron_fabric.capture.safetensors_io import PART, TensorFileWriter, bf16_to_f32, open_tensors
from neuron_fabric.capture.selection import Selection, parse_numbers, selects
from neuron_fabric.capture.writer import CaptureFolder, worker_writer
from neuron_fabric.errors import CaptureError

ROOT = Path(__file__).parents[2]
NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}

names = st.text("abcXYZ0189._-é ", min_size=1, max_size=12).filter(lambda n: ".." not in n)
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
tensor_sets = st.dictionaries(
    names, st.tuples(shapes, st.sampled_from(list(NUMPY))), min_size=1, max_size=6
).map(lambda found: [TensorSpec(name, *rest) for name, rest in found.items()])


def stored(spec: TensorSpec, seed: int) -> np.ndarray:
    """Return random bit patterns for a tensor, NaN among them."""
    size = spec.elements * np.dtype(NUMPY[spec.dtype]).itemsize
    raw = np.random.default_rng([seed, len(spec.name)]).bytes(size)
    return np.frombuffer(raw, dtype=NUMPY[spec.dtype]).reshape(spec.shape)


def widened(values: np.ndarray) -> np.ndarray:
    """Return stored values as the reader converts them: to float32."""
    if values.dtype == np.dtype("<u2"):
        return bf16_to_f32(values)
    with np.errstate(invalid="ignore"):
        return values.astype(np.float32)


def write(folder: Path, tensors: list[TensorSpec], step: int, worker: int, seed: int) -> None:
    with worker_writer(folder, step, worker, tensors) as file:
        for spec in reversed(tensors):
            file.write(spec.name, stored(spec, seed))


@given(tensors=tensor_sets, workers=st.integers(1, 3), order=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, tensors: list[TensorSpec], workers: int, order: object
) -> None:
    """Check that any names, shapes, dtypes and bit patterns are read as written.

    Tensors and steps are written in any order.
    """
    folder = tmp_path_factory.mktemp("c") / "capture"
    lead = CaptureFolder(folder, "m", workers, tensors, "note", "created")
    lead.create()
    for step in (60, 3):
        for worker in range(workers):
            mixed = list(tensors)
            order.shuffle(mixed)  # type: ignore[attr-defined]
            with worker_writer(folder, step, worker, tensors, {"rank": str(worker)}) as file:
                for spec in mixed:
                    file.write(spec.name, stored(spec, step + worker))
        lead.finished(step)
    capture = Capture.open(folder)
    assert capture.tensors == tuple(tensors)  # the model's order, whatever the order of writing
    assert (capture.steps, capture.note, capture.created) == ((3, 60), "note", "created")
    for step, worker, spec, got in capture.values():
        assert got.tobytes() == widened(stored(spec, step + worker)).tobytes()
    assert open_tensors(worker_file(folder, 60, 0)).metadata == {"rank": "0", "step": "60"}
    assert not list(folder.rglob("*" + PART))


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """Check that the writer keeps none of 20 tensors of 1 MB in memory."""
    specs = [TensorSpec(f"t{i}", (250_000,)) for i in range(20)]
    tracemalloc.start()
    with TensorFileWriter(tmp_path / "x", specs) as file:
        for spec in specs:
            file.write(spec.name, np.zeros(spec.shape, dtype="<f4"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.5e6


SPECS = [TensorSpec("a", (2, 3)), TensorSpec("b", (4,))]


@pytest.mark.parametrize(
    ("name", "size", "text"),
    [
        ("a", 5, "'a' takes 24 bytes, got 20"),
        ("c", 1, "'c' is not in the file"),
        ("a", 7, "'a' takes 24 bytes, got 28"),
        ("b", 4, "'b' came twice"),
    ],
)
def test_wrong_tensors_are_refused(tmp_path: Path, name: str, size: int, text: str) -> None:
    file = TensorFileWriter(tmp_path / "x", SPECS)
    file.write("b", np.zeros(4, dtype="<f4"))
    with pytest.raises(ValueError, match=text):
        file.write(name, np.zeros(size, dtype="<f4"))
    file.abort()
    assert not list(tmp_path.iterdir())


def test_pieces_where_what_is_not_written_is_zero(tmp_path: Path) -> None:
    with TensorFileWriter(tmp_path / "x", SPECS, zeros=True) as file:
        file.write("b", np.array([7.0, 8.0], dtype="<f4"), 8)
        with pytest.raises(ValueError, match="'b' takes 16 bytes, got 8"):
            file.write("b", np.zeros(2, dtype="<f4"), 12)
    found = open_tensors(tmp_path / "x")
    assert found.read("b").tolist() == [0.0, 0.0, 7.0, 8.0]
    assert not found.read("a").any()


def test_a_missing_tensor_leaves_no_file(tmp_path: Path) -> None:
    file = worker_writer(tmp_path, 1, 0, SPECS)
    file.write("b", np.zeros(4, dtype="<f4"))
    with pytest.raises(ValueError, match="'a' was not written"):
        file.close()
    assert not list((tmp_path / "step-000001").iterdir())
    worker_writer(tmp_path, 2, 0, SPECS).abort()
    assert not list(tmp_path.rglob("*.safetensors*"))


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ([], "no tensor to capture"),
        ([TensorSpec("a", (1,), "F64")], "dtype F64"),
        ([TensorSpec("../a", (1,))], "unsafe tensor name"),
    ],
)
def test_tensors_that_no_capture_holds(
    tmp_path: Path, tensors: list[TensorSpec], text: str
) -> None:
    with pytest.raises(CaptureError, match=text):
        CaptureFolder(tmp_path / "c", "m", 1, tensors).create()
    assert not (tmp_path / "c").exists()


def test_a_folder_that_holds_something(tmp_path: Path) -> None:
    """Check that a new capture replaces an incomplete one, but no complete steps or other files."""
    lead = CaptureFolder(tmp_path / "c", "m", 1, SPECS)
    lead.create()
    (tmp_path / "c" / "step-000007").mkdir()
    lead.create()
    assert not (tmp_path / "c" / "step-000007").exists()
    write(lead.path, SPECS, 1, 0, 1)
    lead.finished(1)
    with pytest.raises(CaptureError, match=r"holds a capture already \(1 steps\)"):
        lead.create()
    Capture.open(lead.path).verify()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(CaptureError, match="holds no capture"):
        CaptureFolder(tmp_path / "other", "m", 1, SPECS).create()
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="File exists"):
        CaptureFolder(tmp_path / "file", "m", 1, SPECS).create()


def test_a_folder_is_written_by_one_at_a_time(tmp_path: Path) -> None:
    """Check that a second capture to a folder is refused: each would list only its own steps."""
    first = CaptureFolder(tmp_path / "c", "m", 1, SPECS)
    first.create()
    second = CaptureFolder(tmp_path / "c", "m", 1, SPECS)
    with pytest.raises(CaptureError, match="another capture is being written to this folder"):
        second.create()
    del first
    second.create()


def test_a_step_is_listed_when_every_worker_has_closed_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    lead = CaptureFolder(folder, "m", 2, SPECS)
    lead.create()
    refused(folder, "no step is whole")
    write(folder, SPECS, 5, 0, 1)
    lead.finished(5)
    refused(folder, "no step is whole")
    late = worker_writer(folder, 5, 1, SPECS)
    for spec in SPECS:
        late.write(spec.name, stored(spec, 2))
    lead.collect()
    refused(folder, "no step is whole")
    late.close()
    blocked = folder / "capture.json.part"
    blocked.mkdir()  # as a full disk, the manifest cannot be written
    with pytest.raises(OSError, match="Is a directory"):
        lead.collect()
    blocked.rmdir()
    lead.collect()
    assert Capture.open(folder).steps == (5,)
    write(folder, SPECS, 6, 0, 1)  # worker 1 is killed in step 6
    lead.finished(6)
    capture = Capture.open(folder)
    assert (capture.steps, capture.unfinished()) == ((5,), [6])
    with pytest.raises(CaptureError, match="step 6 is not whole"):
        capture.load(6)


def refused(folder: Path, text: str) -> None:
    with pytest.raises(CaptureError, match=text) as caught:
        Capture.open(folder)
    assert "\n" not in str(caught.value)


_VICTIM = """
import sys
import numpy as np
from pathlib import Path
from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.capture.writer import CaptureFolder, worker_writer
folder, specs = Path(sys.argv[1]), [TensorSpec(f"t{i}", (20_000,)) for i in range(8)]
lead = CaptureFolder(folder, "m", 2, specs)
lead.create()
print("go", flush=True)
for step in range(10**6):
    for worker in range(2):
        with worker_writer(folder, step, worker, specs) as file:
            for spec in specs:
                file.write(spec.name, np.full(spec.shape, step, dtype="<f4"))
    lead.finished(step)
"""


@pytest.mark.parametrize("milliseconds", [0, 3, 11, 40, 130])
def test_kill_9_leaves_whole_steps_or_is_refused(tmp_path: Path, milliseconds: int) -> None:
    """Check that a writer killed at any moment leaves complete listed steps; others are refused."""
    folder = tmp_path / "c"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(folder)], stdout=subprocess.PIPE, env=env
    )
    assert victim.stdout is not None
    victim.stdout.readline()
    time.sleep(milliseconds / 1000)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    if json.loads((folder / "capture.json").read_text(encoding="utf-8"))["steps"] == []:
        refused(folder, "no step is whole")
        CaptureFolder(folder, "m", 2, SPECS).create()  # and the folder can be used again
        return
    capture = Capture.open(folder)
    for step, _, _, values in capture.values():
        assert (values == step).all()
    for step in capture.unfinished():
        with pytest.raises(CaptureError, match="is not whole"):
            capture.open_step(step)


def test_links_that_others_have_planted_are_not_followed(tmp_path: Path) -> None:
    """Check that symbolic links at temporary names are not followed when a capture is written."""
    victim, folder = tmp_path / "victim", tmp_path / "capture"
    victim.write_text("mine", encoding="utf-8")
    lead = CaptureFolder(folder, "m", 1, [TensorSpec("a", (3,))])
    folder.mkdir()
    (folder / "capture.json.part").symlink_to(victim)
    lead.create()
    step = folder / "step-000000"
    step.mkdir()
    (step / "worker-000.safetensors.part").symlink_to(victim)
    with worker_writer(folder, 0, 0, lead.tensors) as file:
        file.write("a", np.zeros(3, "<f4"))
    lead.finished(0)
    assert victim.read_text(encoding="utf-8") == "mine"
    assert Capture.open(folder).steps == (0,)


# Selection of steps, ranks and layers from texts.

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
    numbers = parse_numbers(text, "steps")
    assert all(selects(numbers, n) for n in inside)
    assert not any(selects(numbers, n) for n in outside)


@pytest.mark.parametrize("text", ["x", "3,", "-1", "7-3", "0-9:0", "1000000", "3 4", "1:2"])
def test_bad_numbers(text: str) -> None:
    with pytest.raises(CaptureError, match="steps"):
        parse_numbers(text, "steps")


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
