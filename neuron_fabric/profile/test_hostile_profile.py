# SPDX-License-Identifier: Apache-2.0
"""Tests of damaged and hostile profiles: each gives a profile or one line, in bounded time."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.data import BITS, PARTS, DataError, parse_toml
from neuron_fabric.errors import LineError
from neuron_fabric.monitor.job_plan import check_monitor, plan_of
from neuron_fabric.profile import Profile, ProfileError, read_profile, write_profile
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.portability import bind_parameters
from neuron_fabric.profile.profile_command import shown
from neuron_fabric.profile.profile_file import SIZE, parse_profile, profile_text
from neuron_fabric.profile.profile_types import Kind
from neuron_fabric.profile.test_profile_file import EXAMPLE

HEAD = EXAMPLE[: EXAMPLE.index("[[region]]")]
REGION = '[[region]]\nname="r{}"\nkind="conv"\nsteady={{route="FP32"}}\n'
WHOLE = [REGION.format(n) for n in range((SIZE - len(HEAD)) // len(REGION.format(1000)))]
LARGE = {
    "a key of many parts": ".".join("a" * (SIZE // 2 - 1)) + "=1\n",
    "a table of many parts": "[" + ".".join("a" * (SIZE // 2 - 1)) + "]\n",
    "parts with blanks": ' . "a.b"\t. '.join("a" * (SIZE // 16)) + "=1\n",
    "parts in an inline table": "x={" + ".".join("a" * (SIZE // 2 - 4)) + "=1}\n",
    "keys of as many parts as can be": "".join(
        f"k{n}{'.a' * (PARTS - 1)}=1\n" for n in range(SIZE // (2 * PARTS + 8))
    ),
    "tables": "".join(f"[a.b{n}]\n" for n in range(SIZE // 11)),
    "inline tables": "x=" + "{a=" * (SIZE // 3 - 1),
    "lists": "x=" + "[" * (SIZE - 2),
    "a string that does not end": '"""' + "\\" * (SIZE - 3),
    "escaped quotes": '\\"""' * (SIZE // 4),
    "a long integer": "x=" + "9" * (SIZE - 2),
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
    "regions of one name": HEAD + REGION.format(1) * (len(WHOLE) - 1),
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
@given(st.text(st.sampled_from("a.\"'=[]{},#\n \\1ex-"), max_size=400))
def test_any_text(text: str) -> None:
    used(text)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(EXAMPLE)))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int) -> None:
    path = tmp_path_factory.mktemp("bytes") / "p.toml"
    path.write_bytes(EXAMPLE[:at].encode() + data + EXAMPLE[at:].encode())
    with suppress(ProfileError):
        read_profile(path)
