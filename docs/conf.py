"""Sphinx configuration."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))

import make_gallery

make_gallery.main(Path(__file__).parent / "_generated")

project = "unclump"
author = "The unclump authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon", "sphinx_copybutton"]
nb_execution_mode = "force"  # tutorials show what this version prints
nb_execution_raise_on_error = True
nb_execution_timeout = 300
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "unclump"
exclude_patterns = ["_build", "_generated"]
default_role = "literal"
autodoc_typehints = "description"
napoleon_use_ivar = True
