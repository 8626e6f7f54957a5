"""The site: sphinx-build -W docs site."""

import logging
import os
import re
import sys
from contextlib import chdir
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from commands_page import commands_document
from fidelity_page import fidelity_document
from record_tables import filled
from results_page import results_document, write_reports

from vsepp import __version__
from vsepp.shipped.folders import shipped_models

project = "vsepp"
author = "the authors of vsepp"
release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc", "sphinx_copybutton"]
nb_execution_mode = "off"
copybutton_selector = "div:not(.cell_output) > div.highlight pre"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
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


STUDIES = {"flickr8k": ["flickr8k_study", "objectives", "vse_infinity_study"]}
"""Preset → papers whose pages are made from records: `results/<preset>` below this folder."""
WITH_RECORDS = ["flickr8k.md", "objectives.md", "other-papers.md"]
"""Pages of which some tables have numbers of records."""


os.environ |= {"COLUMNS": "96", "PYTHON_COLORS": "0"}  # of the help on the page of commands
logging.getLogger("fontTools").setLevel(logging.WARNING)  # a hundred lines for each PDF otherwise


def write_pages(app):
    """Write the pages that are made from parameters, parsers, records and models' cards, before any page is read."""
    source = Path(app.srcdir)
    with chdir(source.parent):
        reports = write_reports(STUDIES, Path(app.outdir))
    pages = {
        "fidelity.md": fidelity_document(source.parent / "params"),
        "commands.md": commands_document(),
        "results.md": results_document(reports),
    }
    for name, folder in shipped_models().items():
        pages[f"model-{name}.md"] = (folder / "README.md").read_text(encoding="utf-8")
    for name in WITH_RECORDS:
        pages[name] = filled((source / name).read_text(encoding="utf-8"), source.parent / "params")
    for name, text in pages.items():
        (source / name).write_text(text, encoding="utf-8")


def link_cards(app, docname, source):
    """Let links to models' cards, which lie outside of this folder, lead to their pages."""
    source[0] = re.sub(r"\]\(\.\./vsepp/shipped/(\w+)/README\.md\)", r"](model-\1.md)", source[0])


def setup(app):
    """Register the above with Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_cards)
