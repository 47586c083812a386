# SPDX-License-Identifier: Apache-2.0
"""Settings of Sphinx: `make docs` builds the documentation site from the Markdown of the tree.

The directive `nf-help` prints the help of every command, as argparse makes it.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))
os.environ["COLUMNS"] = "100"  # width of the help texts

project = "neuron-fabric"
copyright = "the authors of neuron-fabric. Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = f"{HERE.name}/index"
include_patterns = ["*.md", "*/**.md"]
exclude_patterns = ["build", ".venv", ".github", "**/.*", "**/CHANGELOG.md"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "description"
html_theme = "furo"
html_title = "neuron-fabric"
html_theme_options = {"source_directory": "docs/"}


class CommandHelp(Directive):
    """Sections with the help of every command of `nf`."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        from scripts.cli.main import VERBS, make_parser

        out: list[nodes.Node] = []
        for verb in VERBS:
            text = io.StringIO()
            with redirect_stdout(text), suppress(SystemExit):
                make_parser(verb).parse_args([*verb.split(), "--help"])
            section = nodes.section(ids=[nodes.make_id(f"nf-{verb}")])
            section += nodes.title(text=f"nf {verb}")
            section += nodes.literal_block(text=text.getvalue(), language="text")
            out.append(section)
        return out


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("nf-help", CommandHelp)
