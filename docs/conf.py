"""Sphinx configuration."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))

import make_gallery

make_gallery.main(Path(__file__).parent / "_generated")

project = "unclump"
author = copyright = "The unclump authors"
release = metadata.version("unclump")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon", "sphinx_copybutton"]
nb_execution_mode = "force"  # tutorials show what this version prints
nb_execution_raise_on_error = True
nb_execution_timeout = 900  # seconds for a cell, on a busy machine
copybutton_prompt_text = r"\$ |>>> |\.\.\. "  # which are not copied
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"unclump {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
exclude_patterns = ["_build", "_generated", "jupyter_execute"]  # what builds leave
default_role = "literal"
autodoc_typehints = "description"
autodoc_inherit_docstrings = False  # of what subclasses override for themselves, only the base class is shown
napoleon_use_ivar = True
