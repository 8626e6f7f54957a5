"""The site: sphinx-build -W docs site."""

import logging
import sys
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fidelity_page import fidelity_document

from vsepp import __version__
from vsepp.config import make_plan
from vsepp.reporting.pages import write_report

project = "vsepp"
author = "the authors of vsepp"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
autodoc_member_order = "bysource"
default_role = "code"
autosummary_generate = False
autodoc_typehints = "none"
numpydoc_show_class_members = False
html_show_copyright = False
html_theme = "furo"
html_title = "vsepp"
html_static_path = ["_static"]
html_css_files = ["site.css"]


STUDIES = {"flickr8k": ["flickr8k_study", "objectives"]}
"""Preset → papers whose pages are made from records: `results/<preset>` below this folder."""


logging.getLogger("fontTools").setLevel(logging.WARNING)  # a hundred lines for each PDF otherwise


def write_fidelity_page(app):
    """Write what the fidelities decide, before pages are read."""
    source = Path(app.srcdir)
    (source / "fidelity.md").write_text(fidelity_document(source.parent / "params"), encoding="utf-8")


def make_reports(app, exception):
    """Make the pages of kept studies where links in the folder of the docs lead."""
    if exception:
        return
    with chdir(Path(app.srcdir).parent):
        for preset, papers in STUDIES.items():
            plan = make_plan(Path("params"), {"preset": preset, "papers": papers})
            for paper, made in plan.of_kind("report").items():
                # A site shows what is kept, whatever else was trained here.
                kept = replace(made.spec, models=tuple(model for model in made.spec.models if model.study))
                folder = Path(app.outdir) / "results" / preset / "reports" / paper
                write_report(kept, folder, folder)


def setup(app):
    """Register the above with Sphinx."""
    app.connect("builder-inited", write_fidelity_page)
    app.connect("build-finished", make_reports)
