"""The edits that all contract tests send, and what must come back, written by hand."""

PYTHON = """\
import os


def area(w, h):
    return w * h


def name():
    return os.name
"""
PYTHON_UPDATE = """\
# ... existing code ...

def area(w, h):
    if w < 0 or h < 0:
        raise ValueError('negative')
    return w * h

# ... existing code ...
"""
PYTHON_MERGED = """\
import os


def area(w, h):
    if w < 0 or h < 0:
        raise ValueError('negative')
    return w * h


def name():
    return os.name
"""
HTML_MERGED = """\
<ul class="a">
  <li>Tom & Jerry's</li>
</ul>

function cost(n) {
  if (n < 0) throw new Error("negative & wrong");
  return n > 1 ? "EUR " + n : "free";
}
"""
MERGED = {"python": PYTHON_MERGED, "python_without_newline": PYTHON_MERGED[:-1], "html": HTML_MERGED}
TAGGED = f"<instruction>I refuse negative sizes.</instruction>\n<code>{PYTHON}</code>\n<update>{PYTHON_UPDATE}</update>"
