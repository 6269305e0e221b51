"""The site of these pages, by Sphinx and MyST: `python -m docs.site` builds it, links checked."""

project = "apply-service"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
highlight_language = "none"  # a block that names no language has none
html_theme = "furo"
pygments_style = "friendly"  # in the theme's own a diff's removed lines are blue, and new ones plain
html_title = project
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 4
myst_enable_extensions: list[str] = []
# GitHub takes these too: a second title, a level left out, and JSON with dots or comments.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
