"""`prefect run NAME -p KEY=VALUE`: one of the flows, now, in this process."""
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from fewpass.flows.display.log_lines import VARIABLE, json_line, wants_json
from fewpass.flows.display.printing import ending_quietly, plain_json
from fewpass.flows.refusals import BAD_REQUEST, FAILED, Interrupted, exit_status, sentence

if TYPE_CHECKING:
    from prefect.flows import Flow

    from fewpass.flows.orchestration.parameters import Named
    from fewpass.flows.orchestration.requests import Request

USAGE = "prefect run NAME [-p KEY=VALUE]... [--log-format json]   (NAME --help: its parameters)"

run_app = App(name="run", help="Run one of fewpass's flows now.", help_flags=[], version_flags=[])


@run_app.default
def run(
    name: str | None = None,
    *more: str,
    param: Annotated[tuple[str, ...], Parameter(name=["--param", "-p"], negative=())] = (),
    log_format: Annotated[Literal["text", "json"], Parameter(env_var=VARIABLE)] = "text",
    help_: Annotated[bool, Parameter(name=["--help", "-h"], negative=())] = False,
) -> None:
    """Run a flow in this process; its records go to PREFECT_API_URL, or to a server for the while.

    Parameters
    ----------
    name
        One of the flows that prefect run lists, such as train or refresh.
    more
        Nothing: a parameter with blanks goes in quotes.
    param
        A parameter, such as -p dataset=clicks or -p solver.kind=sgd; may be repeated.
    log_format
        Lines of the log on standard error: text, or a JSON object each.
    """
    os.environ[VARIABLE] = log_format  # for the processes that are started, too
    with ending_quietly():
        if more:
            _refuse(alone(param, more))
            sys.exit(BAD_REQUEST)
        sys.exit(run_flow(name, param, help_=help_))


def alone(given: Sequence[str], more: Sequence[str]) -> str:
    """Say that words are no parameters, and how the one before them is written with them."""
    whole = shlex.quote(" ".join([*given[-1:], *more]))
    return f'"{more[0]}" stands alone. A parameter with blanks goes in quotes: -p {whole}.'


def _refuse(said: str) -> None:
    """Say on standard error why there is no result."""
    line = json_line("error", said) if wants_json(()) else f"prefect run: {said}"
    sys.stderr.write(f"{line}\n")


def run_flow(name: str | None, words: tuple[str, ...], *, help_: bool = False) -> int:
    """Run a flow, print its result as one JSON object, and return the exit status."""
    if name is None:
        sys.stdout.write(_list_of_flows())
        return 0 if help_ else BAD_REQUEST
    from fewpass.flows.orchestration.parameters import assigned
    from fewpass.flows.orchestration.requests import request_named

    try:
        request = request_named(name)
        if help_:
            usage = f"Usage: prefect run {name} -p KEY=VALUE ...\n\n{request.__doc__}\n\n"
            sys.stdout.write(usage + listed_parameters(request))
            return 0
        parameters = assigned(request, words)
    except ValueError as error:
        _refuse(sentence(error))
        return BAD_REQUEST
    return _finish(_flow(name), parameters)


def _flow(name: str) -> Flow[Any, Any]:
    module = name.replace("-", "_")
    flow: Flow[Any, Any] = getattr(
        importlib.import_module(f"fewpass.flows.orchestration.{module}"), module
    )
    return flow


def _finish(flow: Flow[Any, Any], parameters: dict[str, Any]) -> int:
    if wants_json(()):
        from fewpass.flows.orchestration.run_logs import log_in_json

        log_in_json()
    from fewpass.flows.orchestration.server import answering

    try:
        with answering():
            state: Any = flow(**parameters, return_state=True)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told in a sentence
        _refuse(sentence(error))
        return exit_status(error) if isinstance(error, KeyboardInterrupt) else FAILED
    result = state.result(raise_on_failure=False)
    if state.is_completed():
        sys.stdout.write(plain_json(result) + "\n")
        return 0
    if state.is_cancelled() and not isinstance(result, Interrupted):
        _refuse(str(state.message))
        return FAILED
    cause = (
        result if isinstance(result, BaseException) else RuntimeError(state.message or state.name)
    )
    _refuse(sentence(cause))
    return exit_status(cause)


def _list_of_flows() -> str:
    from fewpass.flows.orchestration.requests import REQUESTS

    flows = "".join(f"  {name:15}{request.__doc__}\n" for name, request in REQUESTS.items())
    return f"Usage: {USAGE}\n\nFlows:\n{flows}"


def listed_parameters(request: Request) -> str:
    """List a flow's parameters, with what each takes and its default."""
    from fewpass.flows.orchestration.parameters import choices, described, short_name
    from fewpass.pipeline.settings.flat_settings import MISSING

    parameters = described(request)
    lines = []
    for named in parameters:
        default = "; required" if named.default is MISSING else _default_of(named)
        lines.append(f"  {short_name(named.path, parameters)}  ({choices(named.hint)}{default})")
        if named.about:
            lines.append(f"      {named.about}")
    return "\n".join(lines) + "\n"


def _default_of(named: Named) -> str:
    """Say what holds where a parameter is left out, unless its text says so."""
    default = getattr(named.default, "kind", named.default)
    if "[default" in named.about or (default is None and "default " in named.about):
        return ""
    return f"; default {'none' if default in (None, (), {}) else json.dumps(default, default=str)}"
