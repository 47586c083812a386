# SPDX-License-Identifier: Apache-2.0
"""Operating profiles as TOML files: strict reader, atomic writer.

`profile.schema.json` in this folder describes the format for other tools. A float is written with
four digits after the point; below a thousandth with four significant digits.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, parse_toml, read_text, toml_key, toml_value
from neuron_fabric.errors import CaptureError, ProfileError
from neuron_fabric.output import check_output, write_bytes
from neuron_fabric.profile.profile_types import (
    FORMAT,
    FULL,
    VERSION,
    Calibration,
    Kind,
    Measured,
    Measurement,
    ModelId,
    Phase,
    PhaseRoute,
    Phases,
    Profile,
    Quantiser,
    Range,
    Reference,
    Region,
    Rule,
    Statistic,
    ValidFor,
)
from neuron_fabric.typed import typed

SCHEMA = Path(__file__).with_name("profile.schema.json")
BOM = "\ufeff"
SIZE = 256 << 10
"""Greatest size of a profile in bytes. For `nf train scale gpt-1.3b`, the draft has 10 KB, with all
statistics 85 KB, and with a region for each of its 292 parameters 80 KB."""
GLOB = 512
"""Greatest length of a glob in characters."""


@dataclasses.dataclass(frozen=True)
class _RegionTable:
    """Table `[[region]]` of a profile file."""

    name: str
    kind: Kind
    steady: PhaseRoute
    match: tuple[str, ...] = ()
    elements: int = 0
    recovery: PhaseRoute | None = None
    measured: Mapping[
        Literal["warmup", "steady", "recovery"],
        Mapping[Route | Quantiser, Mapping[Measurement, Mapping[Statistic, Range]]],
    ] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check elements, ranges, slices, and lengths of globs. Raise DataError if one is wrong.

        The length is limited because `fnmatch` takes time in proportion to its square.
        """
        if any(len(glob) > GLOB for glob in self.match):
            raise DataError(f"match: a glob has more than {GLOB} characters")
        self.region()
        if self.elements < 0:
            raise DataError(f"elements {self.elements} is negative")
        decodes = (decode for phase in self.measured.values() for decode in phase.values())
        for statistics in (one for decode in decodes for one in decode.values()):
            for name, (least, most) in statistics.items():
                if least > most:
                    raise DataError(f"{name} {[least, most]} is not [least, most]")

    def region(self) -> Region:
        """Return the table as a `Region`, with its routes by phase."""
        phases: dict[str, PhaseRoute] = {Phase.WARMUP: FULL, Phase.STEADY: self.steady}
        if self.recovery is not None:
            phases[Phase.RECOVERY] = self.recovery
        measured = cast(Measured, self.measured)
        return Region(self.name, self.kind, self.match, self.elements, phases, measured)


@dataclasses.dataclass(frozen=True)
class _File:
    """Content of a profile file: its keys and tables in their order."""

    format: Literal["neuron-fabric-profile"]
    version: int
    name: str
    model: ModelId
    verified: bool = False
    valid_for: ValidFor = dataclasses.field(default_factory=ValidFor)
    reference: Reference | None = None
    phases: Phases = dataclasses.field(default_factory=Phases)
    rule: Rule = dataclasses.field(default_factory=Rule)
    monitor: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    calibration: Calibration | None = None
    region: tuple[_RegionTable, ...] = ()


def read_profile(path: str | Path) -> Profile:
    """Read a profile from a TOML file.

    Raises:
        ProfileError: The file cannot be read, or is no valid profile.
    """
    try:
        text = read_text(path, SIZE)
    except OSError as error:
        todo = "give a file that `nf train calibrate` has written"
        raise ProfileError(path, f"cannot be read ({error.strerror})", todo) from None
    except DataError as error:
        raise ProfileError(path, error, "give a profile") from None
    return parse_profile(text, path)


def parse_profile(text: str, where: object) -> Profile:
    """Return the profile in a TOML text.

    Raises:
        ProfileError: The text is no valid profile; ``where`` names it in the message.
    """
    try:
        if text.startswith(BOM):
            mark = "it begins with a byte order mark: save it as UTF-8 without"
            raise DataError(f"is no TOML ({mark})")
        table = parse_toml(text)
    except DataError as error:
        raise ProfileError(where, error, "mend it") from None
    _of_this_format(table, where)
    try:
        found = typed(_File, table)
        names = Counter(region.name for region in found.region)
        for name, times in names.items():
            if times > 1:
                raise DataError(f"region {name!r} stands twice")
    except DataError as error:
        raise ProfileError(where, error, "mend it, or calibrate anew") from None
    values = {field.name: getattr(found, field.name) for field in dataclasses.fields(_File)}
    del values["format"], values["region"]
    return Profile(**values, regions=tuple(region.region() for region in found.region))


def _of_this_format(table: Mapping[str, object], where: object) -> None:
    if table.get("format") != FORMAT:
        what = f"its format is {table.get('format')!r}, not {FORMAT!r}"
        raise ProfileError(where, what, "give a profile")
    version = table.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ProfileError(where, f"its version is {version!r}, no number from 1 on", "mend it")
    if version > VERSION:
        what = f"its version is {version}, this package reads up to {VERSION}"
        raise ProfileError(where, what, "install a newer neuron-fabric")


def write_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile to a TOML file, whole or not at all.

    Raises:
        ProfileError: The file cannot be written, or would be too large to be read.
    """
    place, text = Path(path), profile_text(profile).encode()
    if len(text) > SIZE:
        what = f"a profile of {len(text):,} bytes, and no more than {SIZE:,} can be read"
        raise ProfileError(path, what, "join regions, or leave out what was measured")
    try:
        check_output(place, "path")
        write_bytes(place, text, durable=True)
    except CaptureError as error:
        raise ProfileError(error.where, error.what, error.todo) from None
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise ProfileError(path, what, "choose another file") from None


def profile_text(profile: Profile) -> str:
    """Return the TOML text of a profile; equal profiles give equal texts."""
    lines = [
        "# An operating profile: routes of gradients, region by region. `nf train profile show` "
        "explains",
        "# it, `nf train profile rule` chooses routes anew from what was measured.",
        f'format = "{FORMAT}"',
        *_pairs(profile, "version", "name", "verified"),
        "",
        "[model]",
        *_pairs(profile.model, "fingerprint", "parameters"),
        *_table("valid_for", profile.valid_for),
        *_table("reference", profile.reference),
        *_table("calibration", profile.calibration),
        *_table("phases.warmup", profile.phases.warmup),
        *_table("phases.steady", profile.phases.steady),
        *_table("rule", profile.rule),
    ]
    if profile.monitor:
        lines += [
            "",
            "[monitor]",
            *(f"{toml_key(k)} = {_value(v)}" for k, v in profile.monitor.items()),
        ]
    for region in profile.regions:
        lines += ["", "[[region]]", *_pairs(region, "name", "kind", "match", "elements")]
        routed = [one for one in (Phase.STEADY, Phase.RECOVERY) if one in region.phases]
        lines += [f"{one} = {_value(_changed(region.phases[one]))}" for one in routed]
        for phase, routes in region.measured.items():
            lines.append(f"[region.measured.{toml_key(phase)}]")
            lines += [
                f"{toml_key(route)}.{toml_key(decode)} = {_value(statistics)}"
                for route, decodes in routes.items()
                for decode, statistics in decodes.items()
            ]
    return "\n".join(lines) + "\n"


def _pairs(of: object, *names: str) -> Iterator[str]:
    return (f"{name} = {_value(getattr(of, name))}" for name in names)


def _table(name: str, of: Any) -> list[str]:
    """Return the TOML lines of a dataclass as table ``name``; [] if nothing is set.

    None is not written; an empty tuple only if it is not the default.
    """
    values = {
        one.name: value
        for one in (dataclasses.fields(of) if of is not None else ())
        if (value := getattr(of, one.name)) is not None and (value != () or one.default != ())
    }
    return ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in values.items())] * bool(
        values
    )


def _changed(how: PhaseRoute) -> dict[str, object]:
    """Return the fields of a route that are written for it, by name.

    FP32 has no more than `why` and `low_rank`; the signal is written only if it is momentum.
    """
    names = ["route", "why"]
    if how.route.votes:
        names[1:] = ["decode", "scale", "shrink", "feedback", "why"]
    if how.route.codes:
        names[1:] = ["rounding", "feedback", "why"]
    if how.granularity != "tensor":
        names += ["granularity"] + ["block"] * (how.block > 0)
    if how.signal != "gradient":
        names += ["signal", "beta"]
    names += ["low_rank"] * (how.low_rank > 0)
    return {name: getattr(how, name) for name in names if getattr(how, name) != ""}


def _value(value: Any) -> str:
    return toml_value(value, _number)


def _number(value: float) -> str:
    """Return the TOML text of a float: four decimals, or four significant digits below 0.001."""
    if value == 0 or abs(value) >= 1e-3:
        return f"{value:.4f}"
    return f"{value:.3e}"
