"""Completion by the Tab key: scripts of shells, and the words that these ask for."""
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from fewpass.flows.listed_commands import COMMANDS, command_named, function_of
from fewpass.flows.refusals import UsageError

INSTALL, COMPLETE = "--install-completion", "--complete"
#: Where shells look for scripts, below the home of a user.
PLACES = {
    "bash": ".local/share/bash-completion/completions/fewpass",
    "zsh": ".zfunc/_fewpass",
    "fish": ".config/fish/completions/fewpass.fish",
}
NEXT = {"zsh": "Put fpath+=~/.zfunc before compinit in ~/.zshrc."}
#: Each asks `fewpass --complete WORD...` for the words that the last one may become; files
#: are completed by the shell where there are none.
SCRIPTS = {
    "bash": """\
_fewpass() {
  local IFS=$'\\n'
  COMPREPLY=($(fewpass --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _fewpass fewpass
""",
    "zsh": """\
#compdef fewpass
_fewpass() {
  local -a words_left
  words_left=(${(f)"$(fewpass --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#words_left )); then compadd -a words_left; else _files; fi
}
if [ "$funcstack[1]" = "_fewpass" ]; then
  _fewpass "$@"
else
  compdef _fewpass fewpass
fi
""",
    "fish": """\
function __fewpass
  fewpass --complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c fewpass -a '(__fewpass)'
""",
}


def install(shell: str | None) -> int:
    """Write the script of a shell, by default the user's, to where the shell looks for it."""
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SCRIPTS:
        raise UsageError(
            f"{INSTALL} knows {', '.join(SCRIPTS)}, not {name!r}. Write for example {INSTALL} bash."
        )
    path = Path.home() / PLACES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPTS[name], encoding="utf-8")
    sys.stdout.write(f"{path} is written. {NEXT.get(name, 'Open a new shell.')}\n")
    return 0


def complete(words: Sequence[str]) -> int:
    """Print what may stand for the last word of a command line; the scripts ask for it."""
    sys.stdout.write("".join(f"{one}\n" for one in candidates(words or [""])))
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Return the words that the last one of a command line may become; none for a file."""
    *before, begun = words
    command = command_named(before)
    if command is not None:
        every = _of_command(command, before[len(command.split()) :], begun)
    else:
        inner = [name.split() for name in COMMANDS]
        depth = len(before)
        every = iter([name[depth] for name in inner if name[:depth] == before and name[depth:]])
    return [*dict.fromkeys(word for word in every if word.startswith(begun))]


def _of_command(command: str, before: Sequence[str], begun: str) -> Iterator[str]:
    """Yield options where one is begun, else the choices of the option or argument."""
    from fewpass.flows.command_line import every_name
    from fewpass.flows.declared_options import arguments_of, options_of

    function = function_of(command)
    options = {name: option for option in options_of(function) for name in every_name(option)}
    last = options.get(before[-1]) if before else None
    if last is not None and last.kind is not bool:
        yield from _choices(last.kind)
    elif begun.startswith("-"):
        yield from (name for name in options if name.startswith("--"))
    else:
        yield from (word for place in arguments_of(function) for word in _choices(place.kind))


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
