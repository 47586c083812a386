# SPDX-License-Identifier: Apache-2.0
"""Command `python -m neuron_fabric analyse`: what each route would have made of a capture."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuron_fabric.analysis.capture_analysis import FLOOR, analyse, mean_cosines, warnings_of
from neuron_fabric.analysis.tensor_figures import OPTIONS, TensorFigures, label_of
from neuron_fabric.arguments import whole
from neuron_fabric.capture import Capture
from neuron_fabric.errors import CaptureError, say
from neuron_fabric.monitor.page import STYLE, rendered
from neuron_fabric.output import in_the_way, write_text
from neuron_fabric.profile.profile_types import LEAST_ELEMENTS

HELP = "print what each route makes of captured gradients; write a page and numbers"
EXAMPLES = """examples:
  nf analyse captures/gpt2-fused-qkv         cosine by tensor and route, and warnings
  nf analyse CAPTURE out                     also out/index.html and out/analysis.json
  nf analyse CAPTURE --tensor '*.attn.*' --route 'G_BINARY*'  some tensors, some routes
"""
PAGE, NUMBERS = "index.html", "analysis.json"
TEMPLATE = Path(__file__).with_name("analysis.html.j2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("capture", metavar="CAPTURE", help="folder with a capture.json")
    add("out", nargs="?", type=Path, metavar="OUT", help=f"folder for {PAGE} and {NUMBERS}")
    some: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    step = whole(0, 999_999)
    add("--steps", type=step, metavar="STEP", help="steps of the capture (all)", **some)
    add("--tensor", metavar="PATTERN", help="tensors by name (all)", **some)
    labels = ", ".join(map(label_of, OPTIONS))
    add("--route", metavar="PATTERN", help=f"routes (all): {labels}", **some)


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code.

    Raises:
        CaptureError: The capture is wrong, or an option matches nothing.
    """
    capture = Capture.open(args.capture)
    large = [spec.name for spec in capture.tensors if spec.elements >= LEAST_ELEMENTS]
    labels = {label_of(how): how for how in OPTIONS}
    tensors = _matching("--tensor", args.tensor, large)
    routes = [labels[one] for one in _matching("--route", args.route, list(labels))]
    steps = sorted(set(args.steps)) or list(capture.steps)
    if args.out is not None:
        check_folder(args.out)

    def told(step: int) -> None:
        if len(steps) > 1:
            say(f"step {step}, {steps.index(step) + 1} of {len(steps)}", file=sys.stderr)

    found = list(analyse(capture, steps, dict.fromkeys(tensors, routes), told))
    report(capture, found, args.out)
    return 0


def report(capture: Capture, figures: Sequence[TensorFigures], out: Path | None) -> None:
    """Print cosines and warnings; write page and numbers to a folder, if one is given.

    Raises:
        CaptureError: There are no figures: no tensor is large enough.
    """
    if not figures:
        what = f"has no step and tensor of {LEAST_ELEMENTS:,} elements to analyse"
        raise CaptureError(capture.path, what, "smaller ones are sent in FP32")
    warnings = warnings_of(capture, figures)
    say(*table(figures), *(f"warning: {one}" for one in warnings))
    if out is None:
        return
    numbers = {
        "format": "neuron-fabric-analysis",
        "version": 1,
        "model": capture.model,
        "workers": capture.world_size,
        "warnings": warnings,
        "figures": [dataclasses.asdict(one) for one in figures],
    }
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / NUMBERS, json.dumps(numbers, indent=1, allow_nan=False) + "\n")
    write_text(out / PAGE, page(capture.model or capture.path.name, figures, warnings))
    say(f"written: {out / PAGE}", f"written: {out / NUMBERS}")


def page(title: str, figures: Sequence[TensorFigures], warnings: Sequence[str]) -> str:
    """Return the HTML text of an analysis: one file, no script, no network access.

    A heat map for each route shows the cosine by tensor and step; a table has all figures of the
    last step. The template escapes every text of the capture.

    Args:
        title: Name of the capture.
        figures: Figures of `capture_analysis.analyse`.
        warnings: Warnings of `capture_analysis.warnings_of`.
    """
    steps = sorted({one.step for one in figures})
    return rendered(
        TEMPLATE,
        title=title,
        css=STYLE.read_text(encoding="utf-8"),
        floor=FLOOR,
        warnings=warnings,
        steps=steps,
        routes=list(dict.fromkeys(one.route for one in figures)),
        tensors=list(dict.fromkeys(one.tensor for one in figures)),
        cells={(one.route, one.tensor, one.step): one for one in figures},
        last=[one for one in figures if one.step == steps[-1]],
    )


def table(figures: Sequence[TensorFigures]) -> list[str]:
    """Return the mean cosine over the steps as lines of text: a row a tensor, a column a route."""
    routes = list(dict.fromkeys(one.route for one in figures))
    cosines = mean_cosines(figures)
    steps = {one.step for one in figures}
    width = max(map(len, cosines))
    lines = [f"cosine with the FP32 mean, {len(steps)} step{'s'[: len(steps) > 1]}"]
    lines.append("  ".join([" " * width, *routes]))
    for tensor, found in cosines.items():
        cells = (found.get(route) for route in routes)
        texts = ("-" if one is None else f"{one:.3f}" for one in cells)
        padded = (f"{text:>{len(route)}}" for text, route in zip(texts, routes, strict=True))
        lines.append("  ".join([f"{tensor:{width}}", *padded]))
    return lines


def _matching(option: str, patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that a pattern matches, all without patterns. Raises CaptureError."""
    for one in patterns:
        if not fnmatch.filter(names, one):
            known = ", ".join(names[:8]) + ", ..." * (len(names) > 8)
            raise CaptureError(f"{option} {one}", "matches nothing", f"name one of {known}")
    return [
        one for one in names if not patterns or any(fnmatch.fnmatchcase(one, p) for p in patterns)
    ]


def check_folder(out: Path) -> None:
    """Check, before any work, that `report` can write to a folder. Raises CaptureError."""
    try:
        where = next(path for path in (out, *out.parents) if path.exists())
        with tempfile.TemporaryFile(dir=where):
            pass
        why = next(filter(None, (in_the_way(out / name) for name in (PAGE, NUMBERS))), "")
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        what = f"cannot be written to as a folder ({why})"
        raise CaptureError(out, what, "give another one")
