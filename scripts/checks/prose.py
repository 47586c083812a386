# SPDX-License-Identifier: Apache-2.0
"""Mechanical rules of plain technical English for docstrings, comments, documents and commits.

A docstring starts with a verb or a noun phrase, not with a noun clause ("What comes back"); words
of place are not used for logic or time (`behind` for *after*, `beside` for *with*). Reading holds
the other rules; these only catch the habits that are easy to find.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from scripts.checks import tracked_files
from scripts.common import git

OPENINGS = re.compile(r"(What|Whether|Of|By|As|How|Who|Whose|Where|When|Which|Why|That)\b[^`]")
WORDS = re.compile(
    r"\b(behind|beside|go(?:es)? by|(?:is|are) told|of (?:its|their) own)\b", re.IGNORECASE
)
# Literal uses: a part of the text that contains the word.
LITERAL = (
    "beside: Number of the first operations",  # a field of the C interface
    "slow link behind a bridge",
    "an open door behind",
    "eviction beside",  # names of cover points
    "behind a deferred operation",
)
SUBJECT_LENGTH = 72
BASE = "origin/main"


def violations(root: Path) -> list[str]:
    """Return an error line for each breach in code and documents, and each long commit subject."""
    out: list[str] = []
    for path in tracked_files.files(root, ".py", ".md"):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        out += [f"{name}:{line}: {what}" for line, what in _breaches(path.suffix, text)]
    return out + long_subjects(root)


def _breaches(suffix: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, breach) for all prose of a document, or all docstrings and comments."""
    if suffix == ".md":
        outside = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S)
        pieces = [(number, line) for number, line in enumerate(outside.splitlines(), 1)]
    else:
        pieces = []
        for line, docstring in docstrings(text):
            if OPENINGS.match(docstring):
                opening = docstring.split()[0]
                yield line, f"docstring opens with {opening!r}: use a verb or a noun phrase"
            pieces += [(line + n, one) for n, one in enumerate(docstring.splitlines())]
        pieces += comments(text)
    for line, piece in pieces:
        prose = re.sub(r"`[^`]*`", "", piece)
        for found in WORDS.finditer(prose):
            if not any(one in prose for one in LITERAL):
                yield line, f"{found[0]!r}: name the relation (after, with, uses, reported)"


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of every string that is a statement in Python source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of every comment in Python source."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def long_subjects(root: Path, base: str = BASE) -> list[str]:
    """Return an error line for each commit since the merge base with a subject above 72 characters.

    Without git, its history or the base branch (an archive, a shallow clone) there is nothing to
    compare with, and nothing is returned.
    """
    try:
        since = git.text("merge-base", "HEAD", base, root=root).strip()
        log = git.text("log", "--no-merges", "--format=%h %s", f"{since}..HEAD", root=root)
    except git.GitError:
        return []
    found = (line.partition(" ") for line in log.splitlines())
    return [
        f"commit {commit}: subject has {len(subject)} characters, at most {SUBJECT_LENGTH}"
        for commit, _, subject in found
        if len(subject) > SUBJECT_LENGTH
    ]
