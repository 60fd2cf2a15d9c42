"""What mkdocs does beside reading docs/: pages made of files at the root, and links that fit.

Pages are written to be read where they lie, so links between docs/ and the root of the checkout
lead through folders that a site does not have.  Here they are turned into links of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: Files at the root, and what they are called on the site.
PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
EXAMPLES = "examples.md"
FIXED = {"LICENSE": "licence.md", "docs/papers": "papers/asgd.md"}
SHIM = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
#: The copy button takes the commands of a session alone, and covers no text.
STYLE = """
[data-md-copying] .gp, [data-md-copying] .go { display: none }
.gp { user-select: none; -webkit-user-select: none }
.md-typeset pre > code { padding-right: 3.2em }
.md-code__nav { background: var(--md-code-bg-color) }
"""
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    made = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAGES.items()}
    made[EXAMPLES] = examples()
    made["licence.md"] = f"# Licence\n\n```text\n{(ROOT / 'LICENSE').read_text()}```\n"
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that lead out of docs/, or into it from the root, into links of the site."""
    here = page.file.src_uri
    name = next((name for name, made in PAGES.items() if made == here), f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        if not target or "://" in target:
            return found[0]
        to = placed(posixpath.normpath(posixpath.join(posixpath.dirname(name), target)))
        return f"]({posixpath.relpath(to, posixpath.dirname(here) or '.')}{anchor})"

    return LINK.sub(link, markdown)


def placed(path: str) -> str:
    """Return where a file of the checkout is found on the site."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and path != "docs/papers":
        return path.removeprefix("docs/")
    fixed = {
        "LICENSE": "licence.md",
        "CITATION.cff": "contributing.md",
        "docs/papers": "papers/asgd.md",
    }
    if path in fixed:
        return fixed[path]
    return EXAMPLES if path.startswith("examples") else "contributing.md"


def examples() -> str:
    """Return a page of all programs in examples/."""
    parts = ["# Examples", "Whole programs; a test runs each of them."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts += [f"## {path.name}", f"```python\n{path.read_text(encoding='utf-8')}```"]
    return "\n\n".join(parts) + "\n"


def on_post_page(output: str, **_: Any) -> str:
    """Put our own few lines in the place of a script that would come from the network."""
    ours = (ROOT / "website/worker.js").read_text(encoding="utf-8")
    found = output.replace(SHIM, f"<script>\n{ours}</script>")
    found = found.replace("</head>", f"<style>{STYLE}</style></head>", 1)
    if re.search(r'<(?:script|link|img)[^>]*(?:src|href)="?https?:', found):
        raise PluginError("A page loads something from the network.")
    return found
