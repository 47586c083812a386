# SPDX-License-Identifier: Apache-2.0
"""Code coverage as Cobertura XML (coverage-04), which GitLab, Jenkins and Azure show on changes.

It holds what lcov's format holds: lines and branches without waived points. A folder is a package,
a source file a class. `scripts/schema/cobertura.xsd` has the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from neuron_fabric.printable import one_line
from scripts.coverage.code_coverage import Counted, Share, shown_by_file
from scripts.coverage.places import BRANCH, LINE, Place

_NONE = {"complexity": "0"}  # required, and measured by nothing here


def text(counted: Counted, when: float) -> str:
    """Return the document; ``when`` is its time in seconds since 1970."""
    root = Element("coverage", _NONE, version="neuron-fabric", timestamp=str(int(when * 1000)))
    SubElement(SubElement(root, "sources"), "source").text = "."
    packages = SubElement(root, "packages")
    total: dict[str, Share] = defaultdict(Share)
    files = shown_by_file(counted)
    for folder, names in groupby(sorted(files, key=_folder), _folder):
        package = SubElement(packages, "package", _NONE, name=one_line(folder))
        classes, inside = SubElement(package, "classes"), defaultdict[str, Share](Share)
        for name in names:
            of_file = _class(classes, name, files[name])
            for kind, share in of_file.items():
                inside[kind] += share
                total[kind] += share
        package.attrib |= _rates(inside)
    root.attrib |= _rates(total)
    for kind, word in ((LINE, "lines"), (BRANCH, "branches")):
        root.set(f"{word}-covered", str(total[kind].hit))
        root.set(f"{word}-valid", str(total[kind].total))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _folder(file: str) -> str:
    return Path(file).parent.as_posix()


def _class(classes: Element, file: str, rows: Iterable[tuple[Place, int]]) -> dict[str, Share]:
    """Add a source file to the classes of its package, and return its shares by kind."""
    hits: dict[int, int] = {}
    branches: dict[int, Share] = defaultdict(Share)
    for place, count in rows:
        if place.kind == LINE:
            hits[place.line] = count
        else:
            branches[place.line] += Share(1, int(count > 0))
    found = {
        LINE: Share(len(hits), sum(count > 0 for count in hits.values())),
        BRANCH: sum(branches.values(), Share()),
    }
    names = {"name": one_line(Path(file).stem), "filename": one_line(file)}
    one = SubElement(classes, "class", names | _NONE | _rates(found))
    SubElement(one, "methods")
    lines = SubElement(one, "lines")
    for number in sorted({*hits, *branches}):
        share = branches.get(number)
        count = hits.get(number, share.hit if share else 0)
        line = SubElement(lines, "line", number=str(number), hits=str(count))
        if share:
            part = f"{share.percent:.0f}% ({share.hit}/{share.total})"
            line.attrib |= {"branch": "true", "condition-coverage": part}
    return found


def _rates(shares: Mapping[str, Share]) -> dict[str, str]:
    return {f"{kind}-rate": f"{shares[kind].percent / 100:.4f}" for kind in (LINE, BRANCH)}
