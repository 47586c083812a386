# SPDX-License-Identifier: Apache-2.0
"""Tutorials are executed, and faults of a page are found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.checks import tutorials
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

QUICK = ("first-test", "own-device")
"""Pages that use at most 10 s of processor time each."""
PAGES = [
    pytest.param(
        page,
        id=page.stem,
        marks=[]
        if page.stem in QUICK
        else pytest.mark.nightly("it runs for half a minute or more"),
    )
    for page in tutorials.pages()
]


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "icarus" in text and not registry.get("icarus").available():
        pytest.skip("icarus is not installed")
    if "import torch" in text:
        pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    assert list(tutorials.problems(*tutorials.execute(page, tmp_path))) == []


def test_every_tutorial_is_tested() -> None:
    """Check the pages of the site: one that is not in the table of contents is not read."""
    listed = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    names = [
        page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in tutorials.pages()
    ]
    assert len(names) >= 8
    assert [name for name in names if f"\n{name}\n" not in listed] == []


PAGE = """
```{code-block} python
:caption: sub/hello.py

print("hello", 1.25, "s")
print("bye")
```

```console
$ python3 sub/hello.py  # 3 s
hello 7 s
bye
$ false
$ echo $?
1
$ cd sub && ls
hello.py
```
"""


def faults(tmp_path: Path, text: str) -> list[str]:
    """Run a page in an empty folder and return its faults."""
    page, place = tmp_path / "page.md", tmp_path / "tree"
    place.mkdir()
    page.write_text(text, encoding="utf-8")
    steps = tutorials.steps_of(page)
    return list(tutorials.problems(steps, tutorials.run(steps, place)))


def test_a_page_that_is_right(tmp_path: Path) -> None:
    """Check that files are written first, that state is kept, and that seconds may differ."""
    assert faults(tmp_path, PAGE) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("bye\n$", "by\n$", "10: `python3 sub/hello.py` does not print 'by'"),
        ("hello 7 s\nbye", "bye", "does not print 'bye' next"),
        ("bye\n$", "$", "prints 'bye' too"),
        ("hello 7 s", "hello 7 ms", "does not print 'hello 7 ms'"),
        ("$ echo $?\n1\n", "", "13: `false` ended with exit code 1"),
        ("cd sub", "cd sup", "16: `cd sup && ls` ended with exit code 1"),
        ("$ false", "$ exit 0", "13: `exit 0` did not end within"),
        (PAGE, "```python\nprint()\n```", "no command"),
    ],
)
def test_faults_of_a_page_are_found(tmp_path: Path, old: str, new: str, fault: str) -> None:
    """Check that each fault is reported (negative twins)."""
    found = faults(tmp_path, PAGE.replace(old, new))
    assert len(found) == 1
    assert fault in found[0]


def test_variables_of_the_caller_direct_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a package index of the caller is kept, and another build folder is not."""
    monkeypatch.setenv("NF_BUILD", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index")
    page = "```console\n$ echo $PIP_INDEX_URL/$NF_BUILD.\nhttps://index/.\n```\n"
    assert faults(tmp_path, page) == []


def test_output_without_a_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NfError, match=r"page.md:3: a console block begins with `\$ COMMAND`"):
        faults(tmp_path, "\n```console\nhello\n```\n")


def test_ellipses_stand_for_text_and_for_lines() -> None:
    lines = ["one 1", "two", "three"]
    assert tutorials.compare(["one ...", "...", "three"], lines)[1] == ""
    assert tutorials.compare(["...", "two", "..."], lines)[1] == ""
    assert tutorials.compare(["...", "two"], lines)[1] == "prints 'three' too"
    assert tutorials.compare([], lines)[1] == ""


def test_times_and_seconds_are_written_into_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ a\ntook 1 s\n...\n$ b  # 7 s\n```\n", encoding="utf-8")
    steps = tutorials.steps_of(page)
    ended = [tutorials.StepResult(0, ["took 2.5 s", "x"], 8.7), tutorials.StepResult(0, [], 0.1)]
    assert [step.command for step in steps] == ["a", "b"]
    tutorials.write(page, steps, ended)
    assert page.read_text(encoding="utf-8") == (
        "```console\n$ a  # 9 s\ntook 2.5 s\n...\n$ b\n```\n"
    )


def test_a_copy_is_a_checkout_of_its_own(tmp_path: Path) -> None:
    """Check that programs of the copy name the copy, so that no command changes this tree."""
    tutorials.copy_tree(tmp_path)
    programs = [tmp_path / ".venv/bin" / name for name in ("nf", "activate", "pytest")]
    texts = [path.read_text(encoding="utf-8") for path in programs]
    assert not [text for text in texts if re.search(rf"{re.escape(str(ROOT))}\b", text)]
    assert not (tmp_path / "build").exists()
