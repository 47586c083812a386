# SPDX-License-Identifier: Apache-2.0
"""Functional coverage as UCIS XML: held against the schema, and nothing lost on the way."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

from scripts.common.paths import ROOT
from scripts.conftest import record
from scripts.coverage import functional_coverage
from scripts.report import write_report
from verif.coverage.cover_model import FUNCTIONAL

SCHEMA = ROOT / "scripts" / "schema" / "ucis.xsd"


def test_every_bin_is_in_the_file(tmp_path: Path) -> None:
    hits = {"memory": {"read": 12, "never planned \x00": 1}}
    write_report.write_all([record(metrics={FUNCTIONAL: hits})], "try <it> \x01", tmp_path)
    path = tmp_path / write_report.UCIS
    xmlschema.XMLSchema(SCHEMA).validate(path)
    points = ElementTree.parse(path).getroot().iter("coverpoint")
    found = {
        point.get("name"): {one.get("name"): one for one in point.iter("coverpointBin")}
        for point in points
    }
    planned = functional_coverage.planned().points
    assert {name: [*bins] for name, bins in found.items()} == {
        name: [*point.bins] for name, point in planned.items()
    }
    (contents,) = found["memory"]["read"].iter("contents")
    assert contents.get("coverageCount") == "12"


def test_without_coverage_no_file_is_left(tmp_path: Path) -> None:
    hits = {"memory": {"read": 1}}
    write_report.write_all([record(metrics={FUNCTIONAL: hits})], "x", tmp_path)
    write_report.write_all([record()], "x", tmp_path)
    assert not (tmp_path / write_report.UCIS).exists()


def test_the_schema_refuses_a_damaged_file() -> None:
    with pytest.raises(xmlschema.XMLSchemaException):
        xmlschema.XMLSchema(SCHEMA).validate("<UCIS ucisVersion='1.0'/>")
