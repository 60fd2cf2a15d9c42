"""The page of all commands, made of their functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fewpass.flows.command_line import usage_of
from fewpass.flows.declared_options import Option, options_of, text_of
from fewpass.flows.help_pages import about, choices, spelled
from fewpass.flows.listed_commands import COMMANDS, GROUPS, function_of, texts_about
from fewpass.flows.options import OWN

FIRST = """# Commands

What `fewpass` takes on a command line. `fewpass COMMAND --help` shows the options of every day,
`--help all` the rest, `--help NAME` all about one. An option and its value are two words or one,
`--lam 1/n` or `--lam=1/n`; options stand before or after arguments; what comes after `--` is no
option. [The tutorial](tutorials/csv.md) shows commands at work.

| what | commands |
|---|---|
"""
SHARED = "Options of several commands"


def page() -> str:
    """Return the whole page."""
    parts = [part for words in COMMANDS for part in of(words)]
    return "\n".join([FIRST + contents(), *parts, f"## {SHARED}\n", *shared()])


def contents() -> str:
    """Return the rows of the first table."""
    rows = {
        title: [f"[{w}](#{w.replace(' ', '-')})" for w in group] for title, group in GROUPS.items()
    }
    return "".join(f"| {title} | {', '.join(links)} |\n" for title, links in rows.items())


def of(words: str) -> Iterator[str]:
    """Yield what there is to say of a command."""
    command = function_of(words)
    paragraphs, places = about(words)
    usage = " ".join(f"fewpass {words} {usage_of(command)}".split())
    yield f"## {words}\n\n`{usage}`\n"
    yield from (f"{escaped(part)}\n" for part in paragraphs)
    rows = [f"| `{name}` | {cell(text)} |" for name, text in places]
    options, texts = [*options_of(command)], texts_about(words).parameters
    rows += [row(option, texts) for option in options if option.title == OWN]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"
    titles = dict.fromkeys(option.title for option in options if option.title != OWN)
    names = {option.names for option in options}
    links = []
    for title in titles:
        others = [o for o in members()[title].values() if o.names not in names]
        but = f" but {', '.join(f'`{o.names[0]}`' for o in others)}" if others else ""
        links.append(f"[{title}](#options-{title.lower().replace(' ', '-')}){but}")
    yield f"Also the options of {'; '.join(links)}.\n"


def shared() -> Iterator[str]:
    """Yield a table for each group of options."""
    for title, options in members().items():
        rows = [row(option, {}) for option in options.values()]
        yield "\n".join([f"### Options: {title}\n", "| | |", "|---|---|", *rows]) + "\n"


def members() -> dict[str, dict[str, Option]]:
    """Return the options of several commands by title and name."""
    groups: dict[str, dict[str, Option]] = {}
    for words in COMMANDS:
        for option in options_of(function_of(words)):
            if option.title != OWN:
                groups.setdefault(option.title, {}).setdefault(option.names[0], option)
    return groups


def row(option: Option, texts: dict[str, str]) -> str:
    """Return an option's row of a table."""
    words = choices(option)
    taken = f" Choices: {', '.join(words)}." if len(words) > 3 else ""
    return f"| `{cell(spelled(option))}` | {cell(text_of(option, texts) + taken)} |"


def cell(text: str) -> str:
    """Return a text as a cell of a table has it."""
    return escaped(text).replace("|", "\\|")


def escaped(text: str) -> str:
    """Return a text without what Markdown would read: tags, emphasis, links."""
    return re.sub(r"(?<![`\w])([*<_])|\[(?=[^\]]*\]\()", r"\\\g<0>", text)
