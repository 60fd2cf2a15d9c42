"""The `fewpass` command: what it runs, and the handling of errors."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from fewpass.flows.display.log_lines import json_line, wants_json, warnings_logged
from fewpass.flows.display.printing import (
    between_words,
    ending_quietly,
    escape_missing_letters,
    fill_closed_streams,
    formatted_traceback,
    require_output,
)
from fewpass.flows.flags import in_flags
from fewpass.flows.refusals import Interrupted, exit_status, sentence
from fewpass.flows.signals import Interrupts, end_at_once, handling, sending_lost_ones_again
from fewpass.flows.spared_imports import spare

#: Objects between two looks for circular garbage: imports make 170,000 and no garbage.
COLLECTED_EVERY = 250_000


def command_line() -> None:
    """Be the `fewpass` command: run what the process was started for, and end it."""
    end_at_once()
    fill_closed_streams()
    escape_missing_letters()
    gc.set_threshold(COLLECTED_EVERY)
    spare()
    atexit.register(gc.freeze)  # what is left at the end is not looked through once more
    with ending_quietly():
        sys.exit(main())


def print_version() -> int:
    """Print the version: nothing else is imported for it."""
    from importlib.metadata import version  # noqa: PLC0415 - with email, sockets and archives

    sys.stdout.write(f"{version('fewpass')}\n")
    return 0


def run(tokens: Sequence[str]) -> int:
    """Run what a command line asks for."""
    from fewpass.flows.listed_commands import (  # noqa: PLC0415 - `--version` needs none
        HELP_FLAGS,
        command_named,
        function_of,
    )

    if tokens and tokens[0] in ("--install-completion", "--complete"):
        from fewpass.flows import completion  # noqa: PLC0415 - not for a command

        if tokens[0] == completion.COMPLETE:
            return completion.complete(tokens[1:])
        return completion.install("".join(tokens[1:2]) or None)
    words = command_named(tokens)
    if words is None or {*HELP_FLAGS} & {*tokens}:
        from fewpass.flows.help_pages import page_asked_for  # noqa: PLC0415 - for people alone

        sys.stdout.write(page_asked_for(tokens))
        return 0
    from fewpass.flows.command_line import call_of  # noqa: PLC0415 - it needs pydantic

    return call_of(words, function_of(words), tokens[len(words.split()) :])()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 a failed run, 2 a bad request."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    interrupts = Interrupts()
    with (
        handling(interrupts.handle, [signal.SIGINT]), sending_lost_ones_again(interrupts),
        warnings_logged(tokens),
    ):  # fmt: skip
        try:
            require_output()
            return print_version() if tokens == ["--version"] else run(tokens)
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
