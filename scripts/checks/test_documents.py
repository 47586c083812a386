# SPDX-License-Identifier: Apache-2.0
"""Tests that names in documents exist, and that a table of the specification is the code's."""

from __future__ import annotations

import inspect
import random
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from neuron_fabric.capacity.profile_costs import Cost
from neuron_fabric.monitor import states
from neuron_fabric.monitor.job_plan import Plan, RegionPlan
from neuron_fabric.monitor.signals import Reading, Reason, RegionReading
from neuron_fabric.monitor.states import Mode
from neuron_fabric.monitor.thresholds import Thresholds
from scripts.checks import tracked_files
from scripts.cli.main import VERBS, make_parser, verb_of
from scripts.common.paths import ROOT

DOCUMENTS = [
    *("README.md", "verif/README.md", "neuron_fabric/README.md", "docs/spec/runtime.md"),
    *("docs/gradient-compression.md", "docs/environment.md", "ci/README.md"),
    *("docs/daily-work.md", "docs/replay-and-training.md", "docs/measurements.md"),
]
ELSEWHERE = {"start_powerSGD_iter", "--max-restarts"}  # torch, torchrun
"""Names of other projects."""
CODE = (".py", ".sv", ".c", ".cpp", ".h", ".json", ".toml", ".yaml", ".yml", ".sh", ".css")


def test_every_option_of_attach_is_documented() -> None:
    """Check that the README's table lists exactly the options of `attach`."""
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    from neuron_fabric import attach

    text = (ROOT / "neuron_fabric" / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| option of `attach` |") :].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:]))
    options = set(inspect.signature(attach).parameters) - {"model", "profile", "env"}
    assert set(named) == options
    assert len(named) == len(options)


COMMAND = re.compile(r"((\.venv/bin/)?nf|python -m neuron_fabric) [a-z-]+( (?![a-z ]*: )|$)")


def lines_of(document: str) -> Iterator[str]:
    """Yield the command lines of `nf` and `python -m neuron_fabric` in a document's code blocks.

    A line that begins with a verb and a colon was printed.
    """
    text = (ROOT / document).read_text(encoding="utf-8")
    for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("$ ")
            if COMMAND.match(line):
                yield line


COMMANDS = [(document, line) for document in DOCUMENTS for line in lines_of(document)]


@pytest.mark.parametrize(("document", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_every_command_line_is_understood(document: str, line: str) -> None:
    words = shlex.split(re.sub(r" [&>|] ?.*| &$", "", line), comments=True)
    if words[0] == "python":  # verbs of the package are those of two groups
        groups = {name.split()[1]: name.split()[0] for name in VERBS if " " in name}
        words = ["nf", groups[words[3]], *words[3:]]
    words = words[1:]
    make_parser(verb_of(words)).parse_args(words)


def test_there_are_command_lines() -> None:
    assert len(COMMANDS) > 20


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Return every identifier, option and file name of the code."""
    found = {file.stem for file in tracked_files.files(ROOT)}
    for file in tracked_files.files(ROOT, *CODE):
        if file != Path(__file__):
            text = file.read_text(encoding="utf-8", errors="replace")
            found |= set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*|--[a-z][a-z-]*", text))
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_is_in_the_code(document: str, known: set[str]) -> None:
    """Check that identifiers with an underscore and options in backticks occur in the code."""
    text = (ROOT / document).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    names = [
        name
        for span in re.findall(r"`([^`\n]+)`", text)
        for name in re.findall(r"(?<![\w/.-])--[a-z][a-z-]*|[A-Za-z_]\w*_\w*", span)
    ]
    assert not {one for one in names if one not in known} - ELSEWHERE


@pytest.mark.parametrize("document", ["docs/spec/runtime.md", "neuron_fabric/README.md"])
def test_no_machine_without_a_test_is_promised(document: str) -> None:
    """Check that documents that promise something about GPUs say that no test here has one.

    A line may say that a GPU is refused, left out or used by others.
    """
    text = (ROOT / document).read_text(encoding="utf-8")
    said = [
        line
        for line in text.splitlines()
        if re.search(r"\b(GPUs?|CUDA|NCCL|DAX)\b", line)
        and not re.search(r"refused|needs no GPU|THC|BytePS|\| GPU \||left out", line)
    ]
    assert not said or re.search(r"not (yet )?run on (a GPU|one)", text)


# ---- states of the monitor ---------------------------------------------------------------------
# Thresholds that are small enough for every transition to be met within some thousand steps.
_LIMITS = Thresholds(
    cooldown=8,
    cooldown_most=32,
    band_count=5,
    lock_within=400,
    sample_every=10,
    capacity_every=20,
    loss_window=20,
    slope_window=16,
    mean_window=10,
    drift_count=8,
)
_PLAN = Plan(
    tuple(RegionPlan(f"r{n}", 1000, True, 0.2, 0.05, Cost(1e-3, 1 << 20)) for n in range(3)),
    warmup=10,
    limits=_LIMITS,
)
_SEED, _WALKS, _PHASES, _STEPS = 7, 20, 8, 40  # the seed meets many causes
_GOOD = RegionReading(cosine=0.6, norm=0.0, margin=0.2, saturation=0.05, agreement=0.5)
_ILL = {  # readings of a region, by the signal that is bad
    Reason.COSINE: {"cosine": 0.2},
    Reason.NORM: {"norm": 5.0},
    Reason.MARGIN: {"margin": 0.001},
    Reason.SATURATION: {"saturation": 0.9},
    Reason.AGREEMENT: {"agreement": -0.2, "worker": 0},
}

_JOB_ILL = (
    *(Reason.LOSS_SPIKE, Reason.LOSS_SLOPE, Reason.LOSS_DRIFT),
    *(Reason.NONFINITE, Reason.REDUCER, Reason.CAPACITY),
)


def _reading(
    draw: random.Random, step: int, sampled: Sequence[int], ill: Reason | None, regions: int
) -> Reading:
    """Return a reading in which one signal is bad at random: of the job, or of some regions."""
    bad = draw.random() < 0.6
    found = []
    for number in range(len(_PLAN.regions)):
        values = _ILL.get(ill, {}) if bad and number < regions else {}  # type: ignore[arg-type]
        one = replace(_GOOD, **values)  # type: ignore[arg-type]
        live = number in sampled
        cosine, reference = (one.cosine, 0.0) if live else (None, None)
        found.append(replace(one, cosine=cosine, reference=reference))
    rise = {
        Reason.LOSS_SPIKE: 9.0 * bad,
        Reason.LOSS_SLOPE: step % _STEPS / 50,
        Reason.LOSS_DRIFT: 0.35 * (step % _STEPS > 20),
    }
    return Reading(
        step,
        tuple(found),
        loss=2 + draw.gauss(0, 0.02) + rise.get(ill, 0.0),  # type: ignore[arg-type]
        nonfinite=float(ill is Reason.NONFINITE and bad),
        fallback=ill is Reason.REDUCER and draw.random() < 0.1,
        faults=float(ill is Reason.REDUCER and bad),
        link_latency=1e-4,
        link_mib=1e-6 if ill is Reason.CAPACITY else 1e-2,
    )


def observed() -> tuple[set[tuple[str, str]], set[str]]:
    """Return the transitions of a job and the causes of all transitions in random runs of it."""
    draw = random.Random(_SEED)
    met: set[tuple[str, str]] = set()
    causes: set[str] = set()
    for _ in range(_WALKS):
        state, step = states.start(_PLAN), 0
        for _ in range(_PHASES):
            ill = draw.choice((None, None, *_ILL, *_JOB_ILL))
            regions = draw.randint(1, len(_PLAN.regions))
            for _ in range(_STEPS):
                got = _reading(draw, step, states.samples_due(_PLAN, state), ill, regions)
                state, decided = states.advance(_PLAN, state, got)
                step += 1
                causes |= {one.signal for one in decided}
                met |= {(one.source, one.target) for one in decided if not one.region}
    return met, causes


def test_transitions_of_a_job_are_those_of_the_specification() -> None:
    """The table in section 4.2 of the runtime specification; FALLBACK may become LOCKED_FP32.

    Errors of an assignment change routes, not states.
    """
    table = re.findall(
        r"^\| ([A-Z0-9_]+) \|[^|]*\| ([^|]*)\|$",
        (ROOT / "docs/spec/runtime.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    names = set(Mode)
    wanted = {
        (source, target)
        for source, targets in table
        if source in names
        for target in re.findall(r"[A-Z0-9_]{6,}", targets)
        if target in names and target != source
    }
    met, causes = observed()
    assert {edge for edge in met if edge[1] != Mode.LOCKED_FP32} == wanted
    assert {edge[0] for edge in met - wanted} == {Mode.LOWBIT, Mode.PARTIAL, Mode.RECOVERY}
    assert causes == set(Reason) - {Reason.ERROR}
