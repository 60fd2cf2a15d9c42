"""Hooks of mkdocs: pages that are made, and links that fit.

Pages are written to be read where they lie, so links between docs/ and the root of the checkout
lead through folders that a site does not have.  Here they are turned into links of the site.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from website.made_pages import MADE

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
#: The copy button takes the commands of a session alone, and covers text only when asked for.
#: The page is as wide as lines of output are, and a column of a table as narrow as its words.
STYLE = """
[data-md-color-scheme=default] { --md-code-hl-comment-color: #555;
  --md-code-hl-generic-color: #555 }
[data-md-copying] .gp, [data-md-copying] .go { display: none }
.gp { user-select: none; -webkit-user-select: none }
.md-code__nav { opacity: 0; background: var(--md-code-bg-color) }
pre:hover > .md-code__nav, pre:focus-within > .md-code__nav { opacity: 1 }
.md-grid { max-width: 76rem }
.md-typeset table:not([class]) th { min-width: 0 }
.md-typeset table:not([class]) :is(th, td) { padding: .5em .8em }
.md-typeset code .whole { white-space: nowrap; word-break: normal; overflow-wrap: normal }
"""
#: How much a search prefers a page: terms are looked up, what was decided or changed seldom is.
SEARCH = {"glossary.md": 3.0, "changelog.md": 0.3, "decisions.md": 0.3, "alternatives.md": 0.3}
#: A term of the glossary: a heading on the site, as searches find headings first.
TERM = re.compile(r"^\*\*([^*]+)\.\*\* ", re.MULTILINE)
#: What a text shows as code, and a word of it: broken in its middle it would be another word.
CODE = re.compile(r"<code>([^<\n]+)</code>")
WORD = re.compile(r"(?<!\S)\S{2,28}(?!\S)")
#: A link, and whether its text is the file's own name.
LINK = re.compile(r"(\[[\w./-]+\.md)?\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    made = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAGES.items()}
    made |= made_pages()
    made[EXAMPLES] = examples()
    made["licence.md"] = f"# Licence\n\n```text\n{(ROOT / 'LICENSE').read_text()}```\n"
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


@cache
def made_pages() -> dict[str, str]:
    """Return the pages that are made of docstrings, commands and results, by name."""
    return {page: make() for page, make in MADE.items()}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that lead out of docs/, or into it from the root, into links of the site."""
    here = page.file.src_uri
    page.meta["search"] = {"boost": SEARCH.get(here, 1.0)}
    name = next((name for name, made in PAGES.items() if made == here), f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        file, target, anchor = found[1], found[2], found[3] or ""
        if not target or "://" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        text = f"[{title(path)}" if file else ""
        to = posixpath.relpath(placed(path), posixpath.dirname(here) or ".")
        return f"{text}]({to}{anchor})"

    if here == "glossary.md":
        markdown = TERM.sub(r"### \1\n\n", markdown)
    return LINK.sub(link, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep options and other names whole, on narrow screens and in narrow cells, too."""
    return CODE.sub(_whole_words, html)


def _whole_words(code: re.Match[str]) -> str:
    words = WORD.sub(r'<span class="whole">\g<0></span>', code[1])
    return f"<code>{words}</code>"


def title(path: str) -> str:
    """Return the first heading of a page: on a site, a page has no file's name."""
    made = made_pages().get(path.removeprefix("docs/"))
    text = made or (ROOT / path).read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith("# "))[2:].strip()


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
    parts = ["# Examples", "Whole programs; tests run each of them."]
    for path in sorted((ROOT / "examples").rglob("*.py")):
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
