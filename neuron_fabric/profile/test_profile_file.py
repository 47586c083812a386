# SPDX-License-Identifier: Apache-2.0
"""Tests of profile files: strict reader, and a writer whose output gives the same profile.

Damaged and hostile profiles give a profile or one line, in bounded time.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.codec import Route
from neuron_fabric.data import BITS, PARTS, DataError, parse_toml, read_object
from neuron_fabric.errors import LineError, ProfileError
from neuron_fabric.monitor.job_plan import check_monitor, plan_of
from neuron_fabric.profile import Kind, PhaseRoute, Profile, Region, parse_profile, read_profile
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.portability import bind_parameters
from neuron_fabric.profile.profile_command import shown
from neuron_fabric.profile.profile_file import SCHEMA, SIZE, profile_text, write_profile
from neuron_fabric.profile.profile_types import (
    FULL,
    Assign,
    Floor,
    ModelId,
    Phases,
    Reference,
    Rule,
    Spread,
    Statistic,
    Steady,
    ValidFor,
    Warmup,
)

EXAMPLE = """
format = "neuron-fabric-profile"
version = 1
name = "pairs100-resnet"
verified = true
[model]        # a comment
fingerprint = "sha256:9f1c"
parameters = 53224
[valid_for]
world_size = [4, 16]
amp = "off"
[phases.warmup]
steps = 0.10
[rule]
floor = { G_BINARY = 0.45, G_TERNARY = 0.55, other = 0.80 }
[[region]]
name = "head"
kind = "head"
match = ["head.*"]
elements = 9700
steady = { route = "FP32", why = "cosine 0.000 < 0.45" }
[[region]]
name = "conv.2"
kind = "conv"
match = ["block3.conv*.weight", "block3.short.weight"]
elements = 32256
steady   = { route = "G_BINARY", decode = "vote", shrink = 0.4210, feedback = false }
recovery = { route = "G_TERNARY", decode = "net" }
[region.measured.steady]
G_BINARY.vote = { cosine = [0.468, 0.604], zeros = [0.000, 0.009] }
"""


def test_an_example() -> None:
    profile = parse_profile(EXAMPLE, "p.toml")
    assert (profile.name, profile.verified) == ("pairs100-resnet", True)
    assert profile.fingerprint == "sha256:9f1c"
    head, conv = profile.regions
    assert head.phases["steady"].why == "cosine 0.000 < 0.45"
    assert not head.low_bit
    assert conv.low_bit
    assert conv.phases["warmup"] == FULL
    assert conv.phases["steady"] == PhaseRoute(Route.G_BINARY, shrink=0.421)
    assert conv.phases["recovery"] == PhaseRoute(Route.G_TERNARY, "net")
    assert conv.measured["steady"]["G_BINARY"]["vote"]["cosine"] == (0.468, 0.604)
    assert profile.region("conv.2") is conv
    assert parse_profile(profile_text(profile), "again") == profile


WRONG = {
    "no TOML": ("format", "format format", "p.toml: is no TOML (Expected '=' after a key"),
    "format": ("neuron-fabric-profile", "other", "its format is 'other', not 'neuron-fabric"),
    "version 0": ("version = 1", "version = 0", "its version is 0, no number from 1 on"),
    "version true": ("version = 1", "version = true", "its version is True, no number from 1 on"),
    "newer": (
        "version = 1",
        "version = 2",
        "its version is 2, this package reads up to 1; install a newer neuron-fabric",
    ),
    "unknown key": ("verified =", "verifyed =", "field 'verifyed' is not known here"),
    "deep key": ("shrink", "shrunk", "region[1].steady: field 'shrunk' is not known here"),
    "missing": ("parameters = 53224", "", "model: field 'parameters' is missing"),
    "route": ('"G_BINARY"', '"G_UNARY"', "region[1].steady.route: 'G_UNARY' is not one of FP32"),
    "decode": ('"vote"', '"most"', "region[1].steady.decode: 'most' is not one of vote, net"),
    "kind": ('kind = "conv"', 'kind = "convolution"', "region[1].kind: 'convolution' is not one"),
    "phase": ("recovery =", "cooldown =", "region[1]: field 'cooldown' is not known here"),
    "phases": ("[phases.warmup]", "[phases.cold]", "phases: field 'cold' is not known here"),
    "measured phase": ("measured.steady", "measured.cold", "'cold' is not one of warmup"),
    "measured route": (
        "G_BINARY.vote",
        "Q9.vote",
        "measured.steady: 'Q9' is not one of Q2",
    ),
    "statistic": ("cosine = [", "sine = [", "G_BINARY.vote: 'sine' is not one of cosine"),
    "range": ("[0.468, 0.604]", "[0.9, 0.1]", "region[1]: cosine [0.9, 0.1] is not [least, most]"),
    "no float": ("0.4210", '"x"', "region[1].steady.shrink: 'x' is not a number"),
    "nan": ("0.4210", "nan", "region[1].steady.shrink: nan is not a number"),
    "shrink": ("0.4210", "0", "region[1].steady: shrink 0.0 is not above 0"),
    "warmup": ("steps = 0.10", "steps = -1", "phases.warmup: steps -1.0 is negative"),
    "floor": ("G_TERNARY = 0.55", "G_TERNARY = 1.55", "rule: G_TERNARY 1.55 is not from 0 to 1"),
    "budget": ("[rule]", "[rule]\nassign = { budget = 0 }", "rule.assign: budget 0.0 is not above"),
    "every": ("[rule]", "[rule]\nassign = { every = -1 }", "rule.assign: every -1 is negative"),
    "no reference": (
        "[rule]",
        '[rule]\nassign = { reference = "FP32" }',
        "rule.assign: reference FP32 has no error; name a low-bit route",
    ),
    "reference": (
        "[rule]",
        "[rule]\nassign = {}",
        "rule: assign.reference G_INT4 is not one of routes",
    ),
    "world": ("[4, 16]", "[16, 4]", "valid_for: world_size [16, 4] is no range"),
    "elements": ("= 32256", "= -1", "region[1]: elements -1 is negative"),
    "granularity": (
        "shrink = 0.4210",
        'granularity = "plane"',
        "region[1].steady.granularity: 'plane' is not one of tensor, row, column",
    ),
    "block": (
        "shrink = 0.4210",
        'granularity = "row", block = -2',
        "region[1].steady: block -2 is a number of rows or columns with one scale",
    ),
    "block of a tensor": ("shrink = 0.4210", "block = 2", "steady: block 2 is a number of rows"),
    "fixed groups": (
        "shrink = 0.4210",
        'granularity = "row", scale = "fixed:1"',
        "granularity row is of scales of votes, not of the fixed scale fixed:1",
    ),
    "scale": ("shrink = 0.4210", 'scale = "max"', "scale 'max' is not one of mean_abs, rms, fixed"),
    "fixed 0": ("shrink = 0.4210", 'scale = "fixed:0"', "scale 'fixed:0' is not one of"),
    "more than float32": ("0.4210", "1e39", "region[1].steady: shrink 1e+39 is no float32"),
    "less than float32": ("0.4210", "1e-60", "region[1].steady: shrink 1e-60 is no float32"),
    "fixed inf": ("shrink = 0.4210", 'scale = "fixed:1e999"', "scale inf is no float32"),
    "fixed tiny": ("shrink = 0.4210", 'scale = "fixed:1e-60"', "scale 1e-60 is no float32"),
    "fixed times shrink": (
        "shrink = 0.4210",
        'scale = "fixed:1e30", shrink = 1e30',
        "scale * shrink 1e+60 is no float32",
    ),
    "other digits": ("shrink = 0.4210", 'scale = "fixed:\u0661"', "is not one of mean_abs, rms"),
    "byte order mark": ("\nformat", "\ufeff\nformat", "it begins with a byte order mark"),
    "net without planes": (
        'route = "FP32"',
        'decode = "net", route = "FP32"',
        "region[0].steady: decode net takes planes of counts, which FP32 has not",
    ),
    "feedback of momentum": (
        "feedback = false",
        'feedback = true, signal = "momentum"',
        "region[1].steady: feedback with a momentum signal",
    ),
    "beta": ("feedback = false", 'signal = "momentum", beta = 1', "beta 1.0 is not between 0 and"),
    "scale of codes": (
        'route = "G_TERNARY", decode = "net"',
        'route = "G_INT8", scale = "rms"',
        "region[1].recovery: scale rms: G_INT8 has the scale of its codes; leave it out",
    ),
    "shrink of codes": (
        'route = "G_TERNARY", decode = "net"',
        'route = "G_INT4", shrink = 0.5',
        "region[1].recovery: shrink 0.5: G_INT4 has the scale of its codes; leave it out",
    ),
    "rounding": ("feedback = false", 'rounding = "up"', "'up' is not one of stochastic, nearest"),
    "rounding of votes": (
        "feedback = false",
        'rounding = "nearest"',
        "region[1].steady: rounding nearest is of integer codes, not of G_BINARY",
    ),
    "negative rank": (
        '"FP32"',
        '"FP32", low_rank = -1',
        "region[0].steady: low_rank -1 is a number of",
    ),
    "rank of votes": (
        "feedback = false",
        "low_rank = 2",
        "low_rank 2 is a number of columns in FP32, not G_B",
    ),
    "windows": ("[rule]", "[phases.steady]\nwindows = [0.5, 0.5]\n[rule]", "do not rise from 0"),
    "slice": ('"head.*"', '"head.w[0:4, 1:2]"', "region[0]: match 'head.w[0:4, 1:2]': a slice is"),
    "empty slice": ('"head.*"', '"head.w[:, 4:4]"', "match 'head.w[:, 4:4]': the slice is empty"),
    "twice": ('"conv.2"', '"head"', "region 'head' stands twice"),
    "digits": ("= 53224", f"= {'9' * 5000}", "is no TOML"),
}


@pytest.mark.parametrize(("old", "new", "text"), WRONG.values(), ids=WRONG.keys())
def test_bad_profiles(old: str, new: str, text: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(ProfileError) as caught:
        parse_profile(EXAMPLE.replace(old, new, 1), "p.toml")
    assert text in str(caught.value)
    assert str(caught.value).startswith("p.toml: ")
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"cannot be read \(No such file"):
        read_profile(tmp_path / "none.toml")
    with pytest.raises(ProfileError, match="is a folder, not a file"):
        read_profile(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(ProfileError, match="not UTF-8 at byte 8"):
        read_profile(tmp_path / "latin.toml")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ProfileError, match="is a FIFO, not a file"):
        read_profile(tmp_path / "fifo")


def test_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = parse_profile(EXAMPLE, "p")
    path = tmp_path / "p.toml"
    write_profile(profile, path)
    assert read_profile(path) == profile
    before = path.read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(ProfileError, match=r"cannot be written \(No space left"):
            write_profile(profile, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ProfileError, match="its folder does not exist"):
        write_profile(profile, tmp_path / "none" / "p.toml")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SHARE = st.integers(0, 10_000).map(lambda n: n / 10_000)
VOTES = st.builds(
    PhaseRoute,
    st.sampled_from([Route.G_BINARY, Route.G_TERNARY]),
    st.sampled_from(["vote", "net"]),
    st.sampled_from(["mean_abs", "rms", "fixed:0.01", "fixed:1e-4"]),
    st.integers(1, 30_000).map(lambda n: n / 10_000),
    st.booleans(),
    TEXT,
)
CODES = st.builds(
    PhaseRoute,
    st.sampled_from([Route.G_INT4, Route.G_INT8]),
    feedback=st.booleans(),
    why=TEXT,
    rounding=st.sampled_from(["stochastic", "nearest"]),
)
FACTORS = st.builds(PhaseRoute, st.just(Route.FP32), why=TEXT, low_rank=st.integers(0, 64))
ROUTE = VOTES | CODES | FACTORS
RANGE = st.tuples(SHARE, SHARE).map(lambda pair: (min(pair), max(pair)))
MEASURED = st.dictionaries(
    st.sampled_from(["steady", "recovery"]),
    st.dictionaries(
        st.sampled_from(["G_BINARY", "Q4"]),
        st.dictionaries(
            st.sampled_from(["vote", "net"]),
            st.dictionaries(st.sampled_from(get_args(Statistic)), RANGE),
        ),
    ),
)


SPREAD = st.builds(Spread, SHARE, SHARE)
REGION = st.builds(
    Region,
    TEXT,
    st.sampled_from(Kind),
    st.lists(TEXT, max_size=3).map(tuple),
    st.integers(0, 10**12),
    st.fixed_dictionaries({"warmup": st.just(FULL), "steady": ROUTE}, optional={"recovery": ROUTE}),
    MEASURED,
)
PROFILE = st.builds(
    Profile,
    TEXT,
    st.builds(ModelId, TEXT, st.integers(0, 10**12)),
    st.lists(REGION, unique_by=lambda one: one.name, max_size=4).map(tuple),
    verified=st.booleans(),
    valid_for=st.sampled_from([ValidFor(), ValidFor((2, 8), (1, 1), 4, "Adam", True, "bf16")]),
    reference=st.none() | st.builds(Reference, TEXT, SPREAD, st.none() | SPREAD),
    phases=st.builds(
        Phases, st.builds(Warmup, SHARE), st.sampled_from([Steady(), Steady((0.5, 1.0))])
    ),
    rule=st.builds(
        Rule,
        st.builds(Floor, SHARE, SHARE, SHARE),
        SHARE,
        SHARE,
        protect=st.lists(st.sampled_from(Kind), unique=True).map(tuple),
        assign=st.none() | st.builds(Assign, st.just(Route.G_BINARY), st.sampled_from([0.25, 2.0])),
    ),
    monitor=st.dictionaries(TEXT, SHARE | st.integers(0, 99) | st.booleans() | TEXT),
)
"""Any profile, with floats of four digits."""


def validator() -> Any:
    """Return a JSON Schema validator with the package's schema of profiles."""
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(read_object(SCHEMA))


@settings(max_examples=60, deadline=None)
@given(profile=PROFILE)
def test_what_is_written_is_valid_and_read_again(profile: Profile) -> None:
    text = profile_text(profile)
    assert not list(validator().iter_errors(tomllib.loads(text)))
    again = parse_profile(text, "p")
    # `measured` may hold tables without a number, which are not written: texts are compared.
    assert profile_text(again) == text
    bare = [
        dataclasses.replace(
            one, regions=tuple(dataclasses.replace(each, measured={}) for each in one.regions)
        )
        for one in (profile, again)
    ]
    assert bare[0] == bare[1]


def test_no_kind_is_protected() -> None:
    """Check that `protect = []` of a profile protects no kind of layer, also after write and read.

    Without `protect`, heads and embeddings are protected: they get no votes (see `Rule`).
    """
    profile = parse_profile(EXAMPLE, "p")
    assert profile.rule.protect == (Kind.HEAD, Kind.EMBEDDING)
    changed = dataclasses.replace(profile, rule=dataclasses.replace(profile.rule, protect=()))
    text = profile_text(changed)
    assert "protect = []" in text
    assert parse_profile(text, "p").rule.protect == ()
    assert "windows" not in profile_text(profile).partition("[[region]]")[0]


def test_small_numbers_keep_four_digits() -> None:
    text = EXAMPLE.replace("0.4210", "1.23456e-7")
    found = parse_profile(profile_text(parse_profile(text, "p")), "p")
    assert found.regions[1].phases["steady"].shrink == 1.235e-7


@pytest.mark.parametrize(
    "name",
    [
        *("format", "newer", "unknown key", "deep key", "missing", "route", "decode", "kind"),
        *("phase", "phases", "measured phase", "measured route", "statistic", "no float", "shrink"),
        *("warmup", "floor", "elements", "scale", "beta", "rounding", "granularity", "block"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(name: str) -> None:
    old, new, _ = WRONG[name]
    assert list(validator().iter_errors(tomllib.loads(EXAMPLE.replace(old, new, 1))))


# Damaged and hostile profiles.

HEAD = EXAMPLE[: EXAMPLE.index("[[region]]")]
REGION_TEXT = '[[region]]\nname="r{}"\nkind="conv"\nsteady={{route="FP32"}}\n'
WHOLE = [REGION_TEXT.format(n) for n in range((SIZE - len(HEAD)) // len(REGION_TEXT.format(1000)))]
LARGE = {
    "a key of many parts": ".".join("a" * (SIZE // 2 - 1)) + "=1\n",
    "keys of as many parts as can be": "".join(
        f"k{n}{'.a' * (PARTS - 1)}=1\n" for n in range(SIZE // (2 * PARTS + 8))
    ),
    "lists": "x=" + "[" * (SIZE - 2),
    "a long integer by hexadecimals": "x=0x" + "f" * (SIZE - 4),
    "globs": HEAD
    + '[[region]]\nname="r"\nkind="conv"\nsteady={route="FP32"}\nmatch=['
    + ",".join(['"*a*a*a*a*a*a*a*b"'] * (SIZE // 21))
    + "]\n",
    "measured": HEAD
    + '[[region]]\nname="r"\nkind="conv"\nsteady={route="FP32"}\nmeasured={'
    + ",".join(f"x{n}={{}}" for n in range(SIZE // 12))
    + "}\n",
    "regions": HEAD + "".join(WHOLE),
    "regions of one name": HEAD + REGION_TEXT.format(1) * (len(WHOLE) - 1),
}


def used(text: str) -> Profile | None:
    """Parse a profile text and do all that precedes a training.

    Returns:
        The profile, or None if it is refused in one line.
    """
    try:
        profile = parse_profile(text, "p.toml")
        assert parse_profile(profile_text(profile), "again")
        assert shown(profile)
        check_monitor(profile, "p.toml")
        plan_of(profile, warmup=3, unverified=False, costs={}, refused={})
        return profile
    except LineError as error:
        line = str(error)
    assert len(line.splitlines()) == 1
    assert len(line) < 1000
    return None


@pytest.mark.parametrize("name", LARGE)
def test_time_is_bounded(name: str) -> None:
    """Check the processor time for texts of the greatest size, hundreds of times the usual one."""
    assert SIZE // 2 < len(LARGE[name]) <= SIZE
    start = time.process_time()
    profile = used(LARGE[name])
    assert time.process_time() - start < 10
    regions = {"regions": len(WHOLE), "globs": 1}
    assert len(profile.regions if profile else ()) == regions.get(name, 0)


PARAMETERS = tuple(
    Parameter(f"h.{n}.w", (2048, 2048), "float32", True, Kind.LINEAR, 0, (f"h.{n}.w",))
    for n in range(600)
)


def test_the_largest_profile_is_bound() -> None:
    """Check the time to assign each of 600 parameters to a region, as in a very large model."""
    head = "".join(
        f'[[region]]\nname="r{n}"\nkind="linear"\nmatch=["h.{n}.w"]\nsteady={{route="G_BINARY"}}\n'
        for n in range(600)
    )
    start = time.process_time()
    assert len(bind_parameters(parse_profile(HEAD + head, "p"), PARAMETERS).regions) == 600
    assert time.process_time() - start < 10
    assert len(profile_text(draft("p", PARAMETERS))) < SIZE


def test_many_globs_are_bound() -> None:
    """Check the time to apply 6,000 globs to 600 names; a glob of over 512 characters is refused.

    Each is applied to all names at once (25,000 on 600 took 69 s otherwise). A long glob takes
    quadratic time: 200,000 brackets would take an hour.
    """
    region = '[[region]]\nname="r"\nkind="linear"\nsteady={route="FP32"}\nmatch='
    start = time.process_time()
    globs = ",".join(f'"h.{n % 600}.w{"*" * (n // 600)}"' for n in range(6000))
    profile = parse_profile(f"{HEAD}{region}[{globs}]", "p")
    assert len(bind_parameters(profile, PARAMETERS).regions) == 600
    assert time.process_time() - start < 10
    with pytest.raises(ProfileError, match=r"region\[0\]: match: a glob has more than 512 charact"):
        parse_profile(f'{HEAD}{region}["{"[" * 200_000}"]', "p")


def test_what_is_too_large(tmp_path: Path) -> None:
    """Check that a profile above the size limit is neither read nor written."""
    path = tmp_path / "p.toml"
    path.write_text(LARGE["regions"] + "#" * SIZE, encoding="utf-8")
    with pytest.raises(ProfileError, match=r"has more than 262,144 bytes; give a profile"):
        read_profile(path)
    parameters = tuple(
        Parameter(f"{n}{'x' * 400}", (1,), "float32", True, Kind.NORM) for n in range(800)
    )
    path.unlink()
    with pytest.raises(ProfileError, match=r"bytes, and no more than 262,144 can be read; join"):
        write_profile(draft("p", parameters), path)
    assert not path.exists()


def test_limits_of_keys_and_integers() -> None:
    """Check the limits on parts of a TOML key and bits of an integer.

    Dots in strings and comments do not count as parts of a key.
    """
    dots = "." * 3 * PARTS
    text = (
        f"a=\"{dots}\"\nb='{dots}'\nc='''{dots}'''\nd=\"\"\"{dots}\"\"\"\n# {dots}\ne=[1.5, 2.5]\n"
    )
    assert parse_toml(text)["a"] == dots
    assert parse_toml(".".join("a" * PARTS) + "=1")
    with pytest.raises(DataError, match=f"a key of more than {PARTS} parts"):
        parse_toml(".".join("a" * (PARTS + 1)) + "=1")
    assert parse_toml(f"a={(1 << BITS) - 1}")
    with pytest.raises(DataError, match=f"an integer of more than {BITS} bits"):
        parse_toml(f"a=[{{b={1 << BITS}}}]")


TOKENS = [match.span() for match in re.finditer(r'"[^"\n]*"|[\w.+-]+|[\[\]{}=,\n]', EXAMPLE)]
VALUES = ['""', '"\\u0000\\u001b[31m"', "''", "true", "[]", "{}", "[[]]", '"fixed:1e300"', "#"]
NUMBERS = ["nan", "-inf", "1e308", "-1", "0", "1e-320", str(1 << 63), "9" * 1200, "0x" + "f" * 900]
SYNTAX = ["1979-05-27", "=", "\n", "'''", '"""', "\\", "a.b.c", "[-1, 1]", "[2, 1]", "[1, 1e400]"]
NAMES = ["[region]", "[[region]]", "[[model]]", "[valid_for]", '"G_INT4"', '"momentum"', '"net"']
HOSTILE = st.sampled_from([*VALUES, *NUMBERS, *SYNTAX, *NAMES, "\0"]) | st.text(max_size=20)
CHANGES = st.lists(st.tuples(st.sampled_from(TOKENS), HOSTILE), min_size=1, max_size=3)


def changed(changes: list[tuple[tuple[int, int], str]]) -> None:
    """Replace some tokens of the example profile and use the result."""
    text = EXAMPLE
    for (first, last), new in sorted(changes, reverse=True):
        text = text[:first] + new + text[last:]
    used(text)


NIGHTLY = pytest.mark.nightly("3,000 examples, a minute; by day there are 50")


@pytest.mark.parametrize("examples", [50, pytest.param(3000, marks=NIGHTLY)])
def test_any_token_may_be_another(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(given(CHANGES)(changed))()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(EXAMPLE)))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int) -> None:
    path = tmp_path_factory.mktemp("bytes") / "p.toml"
    path.write_bytes(EXAMPLE[:at].encode() + data + EXAMPLE[at:].encode())
    with suppress(ProfileError):
        read_profile(path)
