"""The `fewpass` command: which commands there are, and what becomes of their errors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, Parameter

from flows import commands
from flows.errors import exit_status, sentence
from flows.flags import in_flags
from flows.log_lines import json_line, wants_json
from flows.printing import ending_quietly, formatted_traceback
from flows.signals import Interrupts, end_at_once, handling

app = App(
    name="fewpass",
    help=(
        "Linear models on data larger than memory, in a few passes, each with a certificate of "
        "how good it is."
    ),
    version=lambda: version("fewpass"),
    default_parameter=Parameter(negative=(), show_default=False),
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
app.command(commands.ingest, usage="Usage: fewpass ingest SOURCE... DATASET [OPTIONS]")
for command in (
    commands.columns,
    commands.plan,
    commands.train,
    commands.resume,
    commands.evaluate,
    commands.predict,
    commands.models,
    commands.publish,
    commands.export,
    commands.weights,
    commands.report,
    commands.inspect,
    commands.verify,
    commands.warm_up,
    commands.doctor,
    commands.dashboard,
    commands.demo,
):
    app.command(command)


def command_line() -> None:
    """Be the `fewpass` command: run what the process was started for, and end it."""
    end_at_once()
    with ending_quietly():
        sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 a failed run, 2 a bad request."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    tokens = ["stdin://" if word == "-" else word for word in tokens]  # no option, but a source
    interrupts = Interrupts()
    with handling(interrupts.handle, [signal.SIGINT]):
        try:
            return app(tokens, exit_on_error=False, print_error=False) or 0
        except BrokenPipeError:  # whoever reads has read enough
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - no traceback ever but by --debug
            told = KeyboardInterrupt() if interrupts.came else error
            interrupts.came = True  # one more must not strike what is told of the first
            if "--debug" in tokens:
                sys.stderr.write(formatted_traceback(error))
            said = in_flags(sentence(told))
            line = json_line("error", said) if wants_json(tokens) else f"fewpass: {said}"
            sys.stderr.write(f"{line}\n")
            return exit_status(told)
