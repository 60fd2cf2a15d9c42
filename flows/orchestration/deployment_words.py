"""`prefect deployment run FLOW/NAME -p ...`: the same parameters as `prefect run` takes.

Prefect's own command knows parameters by their first names alone, and a plan that is given replaces
the deployment's.  What is given to deployments of our flows is therefore put on top of what the
deployment has, checked, and handed on to that command as JSON.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any

MOST_BEFORE = 4  # words before "deployment": --no-prompt, --profile NAME
OPTIONS = ("-p", "--param")


def is_deployment_run(arguments: Sequence[str]) -> bool:
    """Whether `prefect` is asked for a deployment's run; its own options may stand before that."""
    return ("deployment", "run") in islice(pairwise(arguments), MOST_BEFORE)


def rewritten(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `prefect` with the parameters as it takes them.

    Raises ValueError, with a sentence, where they are not the flow's, and ConnectionError where no
    server answers.
    """
    from fewpass.flows.orchestration.requests import REQUESTS

    words, rest = _unpacked(arguments)
    name = _name_in(rest)
    flow_name = name.partition("/")[0]
    if not words or flow_name not in REQUESTS:
        return list(arguments)
    from fewpass.flows.orchestration.command import alone
    from fewpass.flows.orchestration.parameters import HELP, validated, values_of
    from fewpass.pipeline.errors import BadInput

    request, stray = REQUESTS[flow_name], _stray(rest, name)
    if stray:
        raise BadInput(alone(words, stray))
    values_of(request, words, {})  # a name that is wrong needs no server to be refused
    before = _parameters_of(name)
    values = values_of(request, words, before)
    validated(request, values, HELP)
    changed = {key: value for key, value in values.items() if before.get(key) != value}
    given = [f"{key}={json.dumps(value, default=list)}" for key, value in changed.items()]
    return [*rest, *(part for word in given for part in ("-p", word))]


def _name_in(arguments: Sequence[str]) -> str:
    """Return the deployment that arguments name; "" where they name none."""
    named = arguments[list(arguments).index("run") + 1 :]
    return next((word for word in named if not word.startswith("-")), "")


def _stray(arguments: Sequence[str], name: str) -> list[str]:
    """Return words behind a deployment's name that belong to no option."""
    behind = list(arguments)[list(arguments).index(name) + 1 :]
    pairs = zip([name, *behind], behind, strict=False)
    return [word for before, word in pairs if not (word.startswith("-") or before.startswith("-"))]


def more_help(arguments: Sequence[str]) -> str:
    """Return the parameters of the deployment that `prefect deployment run NAME --help` is about.

    "" where help is not asked for, or is not about a flow of ours.
    """
    from fewpass.flows.orchestration.command import listed_parameters
    from fewpass.flows.orchestration.requests import REQUESTS

    name = _name_in(arguments)
    flow_name = name.partition("/")[0]
    if not {"--help", "-h"} & set(arguments) or flow_name not in REQUESTS:
        return ""
    title = f"Parameters of {name}, each as -p KEY=VALUE; what is left out is the deployment's:"
    return f"{title}\n\n{listed_parameters(REQUESTS[flow_name])}\n"


def _unpacked(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the NAME=VALUE words, and all other arguments."""
    words, rest, is_next = [], [], False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if is_next:
            words.append(argument)
            is_next = False
        elif argument in OPTIONS:
            is_next = True
        elif equals and option in OPTIONS:
            words.append(value)
        elif argument.startswith("-p") and not argument.startswith("--"):
            words.append(argument[2:])
        else:
            rest.append(argument)
    return words, rest


def _parameters_of(deployment: str) -> dict[str, Any]:
    """Return what a deployment's runs are given when nothing else is said."""
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound

    from fewpass.flows.orchestration.server import answering

    with answering(), get_client(sync_client=True) as client:
        try:
            deployed = client.read_deployment_by_name(deployment)
        except ObjectNotFound:
            raise ValueError(
                f'There is no deployment "{deployment}". prefect deployment ls lists them.'
            ) from None
    return dict(deployed.parameters)


def rewrite_command_line() -> None:
    """Put what `prefect deployment run` is given into Prefect's form, or end with a sentence."""
    from fewpass.flows.refusals import exit_status, sentence

    try:
        sys.stdout.write(more_help(sys.argv[1:]))
        sys.argv[1:] = rewritten(sys.argv[1:])
    except (ValueError, ConnectionError) as error:
        sys.stderr.write(f"prefect deployment run: {sentence(error)}\n")
        raise SystemExit(exit_status(error)) from None
