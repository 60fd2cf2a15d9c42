"""The `fewpass` command: its verbs, and the handling of their errors."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from fewpass.flows.beginning import beginning
from fewpass.flows.commands import (
    changing_data,
    comparing_runs,
    cross_validating,
    demo,
    doctor,
    evaluating,
    explaining,
    exporting,
    ingesting,
    inspecting,
    methods,
    plan,
    predicting,
    run_report,
    shapes_of_run,
    store,
    training,
    warming,
    weights,
)
from fewpass.flows.display.log_lines import json_line, wants_json, warnings_logged
from fewpass.flows.display.printing import (
    between_words,
    ending_quietly,
    fill_closed_streams,
    formatted_traceback,
    printable,
    require_output,
)
from fewpass.flows.flags import in_flags
from fewpass.flows.refusals import Interrupted, UsageError, exit_status, sentence
from fewpass.flows.short_options import spelled_out
from fewpass.flows.signals import Interrupts, end_at_once, handling, sending_lost_ones_again

OPTIONS = Group.create_default_parameters("Options")
app = App(
    name="fewpass",
    help=(
        "Linear models on data larger than memory, in a few passes, each with a certificate of "
        "how good it is."
    ),
    version=lambda: version("fewpass"),
    group_parameters=OPTIONS,
    default_parameter=Parameter(negative=(), show_default=False),
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
#: Commands as the help lists them; of a group those first that come first in a day's work.
EVERYDAY = Group("Everyday", sort_key=1)
LOOKING = Group("Look closer", sort_key=2)
OTHERS = Group("Less often", sort_key=3)
HELP = Group("Help", sort_key=4)
GROUPS: dict[Group, tuple[Callable[..., int], ...]] = {
    EVERYDAY: (
        ingesting.ingest, training.train, training.resume, evaluating.evaluate, predicting.predict,
        run_report.report,
    ),
    LOOKING: (
        plan.plan, weights.weights, explaining.explain, shapes_of_run.shapes,
        comparing_runs.compare, cross_validating.cross_validate, methods.methods,
        inspecting.inspect, changing_data.head, inspecting.verify, inspecting.dashboard,
    ),
    OTHERS: (
        changing_data.append, changing_data.forget, store.models, store.publish, store.refresh,
        exporting.export, ingesting.columns,
        warming.warm_up, doctor.doctor, demo.demo,
    ),
}  # fmt: skip
USAGES = {
    ingesting.ingest: "Usage: fewpass ingest SOURCE... DATASET [OPTIONS]",
    changing_data.append: "Usage: fewpass append DATASET SOURCE... [OPTIONS]",
}
#: zsh reads a file of completions when they are first asked for, and takes it for the function.
AUTOLOADED = """
if [ "$funcstack[1]" = "_fewpass" ]; then
  _cyclopts_fewpass "$@"
else
  compdef _cyclopts_fewpass fewpass
fi
"""

#: Objects between two looks for circular garbage: imports make many objects and no garbage.
COLLECTED_EVERY = 10_000

for group, members in GROUPS.items():
    for position, command in enumerate(members):
        app.command(command, group=group, sort_key=position, usage=USAGES.get(command))


for flag in ("--help", "--version"):
    app[flag].group = HELP


@app.command(group=OTHERS, sort_key=9)
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
    script = app.generate_completion(shell=shell).rstrip() + "\n"
    sys.stdout.write(script + (AUTOLOADED if shell == "zsh" else ""))
    return 0


@app.default
def start(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Say what to do first, and next."""
    if words:
        near = get_close_matches(words[0], [name for name in app if name[0] != "-"], n=1)
        hint = f"Did you mean {near[0]}?" if near else "fewpass --help lists them all."
        raise UsageError(f'There is no command "{words[0]}". {hint}')
    sys.stdout.write(printable(beginning(Path())))
    return 0


def command_line() -> None:
    """Be the `fewpass` command: run what the process was started for, and end it."""
    end_at_once()
    fill_closed_streams()
    gc.set_threshold(COLLECTED_EVERY)
    atexit.register(gc.freeze)  # what is left at the end is not looked through once more
    with ending_quietly():
        sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 a failed run, 2 a bad request."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    tokens = ["stdin://" if word == "-" else word for word in tokens]  # no option, but a source
    tokens = spelled_out(tokens)
    interrupts = Interrupts()
    with (
        handling(interrupts.handle, [signal.SIGINT]), sending_lost_ones_again(interrupts),
        warnings_logged(tokens),
    ):  # fmt: skip
        try:
            require_output()
            return app(tokens, exit_on_error=False, print_error=False) or 0
        except BrokenPipeError:  # whoever reads has read enough
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - no traceback ever but by --debug
            struck = interrupts.came and not isinstance(error, Interrupted)
            cause = KeyboardInterrupt() if struck else error
            interrupts.came = True  # a second one must not interrupt the report of the first
            if "--debug" in tokens:
                sys.stderr.write(formatted_traceback(error))
            said = in_flags(sentence(cause))
            line = (
                json_line("error", said)
                if wants_json(tokens)
                else between_words(f"fewpass: {said}")
            )
            with suppress(OSError):  # nobody reads it; the status says it, too
                sys.stderr.write(f"{line}\n")
            return exit_status(cause)
