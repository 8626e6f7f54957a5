"""The site: sphinx-build -W docs site."""

import shutil
from pathlib import Path

from vsepp import __version__

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


def setup(app):
    """Kept reports are pages already: they are put where links in the folder of the docs lead."""

    def copy_reports(app, exception):
        for report in Path(app.srcdir).glob("results/*/reports/*"):
            shutil.copytree(report, Path(app.outdir) / report.relative_to(app.srcdir), dirs_exist_ok=True)

    app.connect("build-finished", copy_reports)
