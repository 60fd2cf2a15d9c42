"""The page of the Python API, made of the docstrings of what `fewpass` offers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import fewpass
from fewpass import SourceOptions
from fewpass.solvers.described import described_fields

FIRST = """# Python API

What `from fewpass import ...` offers, from the docstrings. [python.md](python.md) shows it
in use. In Python `help(fewpass.train)` shows the same.

| what | names |
|---|---|
"""
#: What there is, in the order of the page.
GROUPS = {
    "the commands as functions": (
        "ingest", "append", "forget", "train", "evaluate", "cross_validate", "predict", "explain",
        "load", "load_model", "refresh", "models", "publish", "take", "abandon", "warm_up",
    ),
    "scikit-learn estimators": (
        "LinearClassifier", "LinearRegressor", "ScoreCalibrator", "TableEncoder", "from_run",
        "mend_dask_ml",
    ),
    "models in memory": ("LoadedModel",),
    "data sets as tables": ("Dataset",),
    "settings of the functions": (
        "IngestPlan", "SourceOptions", "TrainingPlan", "PredictionPlan", "EvaluationPlan",
        "RefreshPlan", "Execution",
    ),
}  # fmt: skip
METHODS = (
    "fit", "partial_fit", "transform", "predict", "decision_function", "predict_proba",
    "predict_log_proba", "score", "shapes", "get_feature_names_out", "to_sklearn", "save_model",
    "predict_one", "head", "batches", "to_arrow", "to_pandas", "to_polars", "to_dask",
)  # fmt: skip
TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list",
    "object": "dict", "null": "None",
}  # fmt: skip
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


def page() -> str:
    """Return the whole page."""
    names = [name for group in GROUPS.values() for name in group]
    return "\n".join([FIRST + contents(), *(part for name in names for part in of(name))])


def contents() -> str:
    """Return the rows of the first table."""
    links = {what: [f"[{n}](#{n.lower()})" for n in names] for what, names in GROUPS.items()}
    return "".join(f"| {what} | {', '.join(found)} |\n" for what, found in links.items())


def of(name: str) -> Iterator[str]:
    """Yield the parts that tell of one name."""
    what = getattr(fewpass, name)
    yield f"## {name}\n"
    if inspect.isclass(what):
        yield from described(what.__doc__ or "")
        for method in METHODS:
            function = inspect.getattr_static(what, method, None)
            function = getattr(function, "fn", function)  # of `available_if`
            if function and function.__module__.startswith("fewpass"):
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
    found = described_fields(what) if hasattr(what, "model_fields") else {}
    if found:
        kinds = what.model_json_schema()["properties"]
        yield "**Fields**\n"
        yield "\n".join(
            f"- `{k} : {kind(kinds[k])}{default(f)}`: {' '.join(str(f.description).split())}"
            for k, f in found.items()
        )
        yield ""


def kind(schema: dict[str, Any]) -> str:
    """Return what a field takes, out of its JSON schema."""
    if "enum" in schema:
        return "{" + ", ".join(f'"{word}"' for word in schema["enum"]) + "}"
    arms = list(dict.fromkeys(kind(arm) for arm in schema.get("anyOf", [])))
    if arms:
        return " or ".join(arms) if len(arms) < 5 else "str or dict"  # the method, or its settings
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return f'"{schema["const"]}"' if "const" in schema else TYPES[schema["type"]]


def default(field: Any) -> str:
    """Return a field's default as it would be written; nothing where it must be given."""
    found = field.get_default(call_default_factory=True)
    if field.is_required():
        return ""
    if found == 1 << 30:
        return ', default="1GiB"'
    if isinstance(found, SourceOptions):
        return ", default=SourceOptions()"
    plain = getattr(found, "kind", getattr(found, "written", found))
    return f", default={plain!r}".replace("'", '"')


def described(docstring: str) -> Iterator[str]:
    """Yield a docstring's text, then its sections as lists."""
    text, *sections = SECTION.split(inspect.cleandoc(docstring))
    yield f"{text.strip()}\n"
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield f"**{title}**\n"
        yield body.strip() if title == "Notes" else "\n".join(entries(body))
        yield ""


def entries(body: str) -> Iterator[str]:
    """Yield what a section lists; text that follows its list stays text."""
    for block in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, rest = block.partition("\n")
        told = " ".join(rest.split())
        yield f"- `{head}`: {told}" if told else f"- `{head}`"
