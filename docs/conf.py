"""The site: sphinx-build -W docs site."""

from vsepp import __version__

project = "vsepp"
author = "the authors of vsepp"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["images"]
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
