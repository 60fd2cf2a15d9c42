"""docs/api.md, made of the docstrings of what `fewpass` offers: python -m tests.docs.api_page"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import fewpass
from tests.conftest import PROJECT

PAGE = PROJECT / "docs/api.md"
FIRST = """# What Python can import

Made of the docstrings by `python -m tests.docs.api_page`. [python.md](python.md) shows how it is used.
`from fewpass import train` and so on; each name is imported when it is first asked for.
"""
METHODS = (
    "fit", "partial_fit", "predict", "decision_function", "predict_proba", "score", "to_sklearn",
    "save_model",
)  # fmt: skip
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


def page() -> str:
    """Return the whole page."""
    return "\n".join([FIRST, *(part for name in sorted(fewpass.__all__) for part in of(name))])


def of(name: str) -> Iterator[str]:
    """Yield the parts that tell of one name."""
    what = getattr(fewpass, name)
    yield f"## {name}\n"
    if inspect.isclass(what):
        yield from described(what.__doc__ or "")
        for method in METHODS:
            if function := inspect.getattr_static(what, method, None):
                function = getattr(function, "fn", function)  # of `available_if`
                yield f"### {name}.{method}\n\n{signature(method, function)}"
                yield from described(function.__doc__ or "")
        yield from fields(what)
    else:
        yield signature(name, what)
        yield from described(what.__doc__ or "")


def signature(name: str, function: object) -> str:
    """Return how a function is called; types are in its docstring and in the code."""
    words = []
    for p in inspect.signature(function).parameters.values():
        bare = p.replace(annotation=p.empty)
        if p.name == "self":
            continue
        plain = p.default is p.empty or isinstance(p.default, str | int | float | type(None))
        words.append(str(bare) if plain else f"{p.name}=...")
    text = ", ".join(words)
    return f"```text\n{name}({text})\n```\n"


def fields(what: type) -> Iterator[str]:
    """Yield the fields of a settings class."""
    found = getattr(what, "model_fields", {})
    if found:
        yield "**Fields**\n"
        yield "\n".join(
            f"- `{k}`: {' '.join(str(f.description).split())}" for k, f in found.items()
        )
        yield ""


def described(docstring: str) -> Iterator[str]:
    """Yield a docstring's text, then its sections as lists."""
    text, *sections = SECTION.split(inspect.cleandoc(docstring))
    yield f"{text.strip()}\n"
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield f"**{title}**\n"
        yield "\n".join(entries(body))
        yield ""


def entries(body: str) -> Iterator[str]:
    """Yield what a section lists; text that follows its list stays text."""
    for block in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, rest = block.partition("\n")
        told = " ".join(rest.split())
        yield f"- `{head}`: {told}" if told else f"- `{head}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
