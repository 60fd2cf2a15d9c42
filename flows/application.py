"""The application that reads command lines: its commands, in groups, and their pages of help."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from fewpass.flows import listed_commands
from fewpass.flows.beginning import beginning
from fewpass.flows.display.printing import printable
from fewpass.flows.refusals import UsageError

OPTIONS = Group.create_default_parameters("Options")
OTHERS = Group("Less often", sort_key=3)
HELP = Group("Help", sort_key=4)
GROUPS = {
    Group("Everyday", sort_key=1): listed_commands.EVERYDAY,
    Group("Look closer", sort_key=2): listed_commands.LOOKING,
    OTHERS: listed_commands.OTHERS,
}
USAGES = {
    "ingesting:ingest": "Usage: fewpass ingest SOURCE... DATASET [OPTIONS]",
    "changing_data:append": "Usage: fewpass append DATASET SOURCE... [OPTIONS]",
}
#: zsh reads a file of completions when they are first asked for, and takes it for the function.
AUTOLOADED = """
if [ "$funcstack[1]" = "_fewpass" ]; then
  _cyclopts_fewpass "$@"
else
  compdef _cyclopts_fewpass fewpass
fi
"""


def application(*, listing: bool = False) -> App:
    """Return the command line; for `listing` each command has one line of help in place of all."""
    made = App(
        name="fewpass",
        help=(
            "Linear models on data larger than memory, in a few passes, each with a certificate of "
            "how good it is."
        ),
        version=lambda: version("fewpass"),
        version_format="plaintext",
        group_parameters=OPTIONS,
        default_parameter=Parameter(negative=(), show_default=False),
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for group, members in GROUPS.items():
        for position, (place, line) in enumerate(members.items()):
            made.command(
                f"fewpass.flows.commands.{place}", group=group, sort_key=position,
                usage=USAGES.get(place), help=line if listing else None,
            )  # fmt: skip
    made.command(_store(listing=listing))
    made.command(completion, group=OTHERS, sort_key=9)
    made.default(start)
    for flag in ("--help", "--version"):
        made[flag].group = HELP
    return made


def _store(*, listing: bool) -> App:
    """Return the commands of stores."""
    made = App(
        name="store",
        group=OTHERS,
        sort_key=3,
        help="Look at a store that refreshes write to, and decide what they do not.",
        group_parameters=OPTIONS,
        default_parameter=Parameter(negative=(), show_default=False),
    )
    for position, (name, (place, line)) in enumerate(listed_commands.STORE.items()):
        made.command(
            f"fewpass.flows.commands.{place}", name=name, sort_key=position,
            help=line if listing else None,
        )  # fmt: skip
    return made


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell, to be written to where the shell looks for it.

    bash: fewpass completion bash > ~/.local/share/bash-completion/completions/fewpass

    zsh: fewpass completion zsh > ~/.zfunc/_fewpass (with fpath+=~/.zfunc before compinit)

    fish: fewpass completion fish > ~/.config/fish/completions/fewpass.fish

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    script = application(listing=True).generate_completion(shell=shell).rstrip() + "\n"
    sys.stdout.write(script + (AUTOLOADED if shell == "zsh" else ""))
    return 0


def start(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Say what to do first, and next."""
    if words:
        near = get_close_matches(words[0], [name for name in app if name[0] != "-"], n=1)
        hint = f"Did you mean {near[0]}?" if near else "fewpass --help lists them all."
        raise UsageError(f'There is no command "{words[0]}". {hint}')
    sys.stdout.write(printable(beginning(Path())))
    return 0


app = application()
