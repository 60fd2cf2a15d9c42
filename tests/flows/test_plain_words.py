"""What is read without cyclopts is what cyclopts reads."""

import inspect
from dataclasses import replace
from typing import Literal, get_args, get_origin

import pytest
from cyclopts import CycloptsError

from fewpass.flows.application import app
from fewpass.flows.plain_words import PLACES, _options, every_name, plainly_read
from fewpass.flows.refusals import UsageError
from fewpass.flows.wrong_words import explained
from tests.flows.test_cli import COMMANDS

PLACES_OF_WORDS = {"train": ["a", "b"], "resume": ["run"], "evaluate": ["run", "data"]}


def sample(kind):
    if get_origin(kind) is Literal:
        return get_args(kind)[-1]
    return {int: "7", float: "1e-3", str: "a=b, c"}[kind]


def as_cyclopts_reads(tokens):
    command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    return command, bound


def same(tokens):
    """Say whether a line is read here; then it is read the same."""
    call = plainly_read(tokens)
    if call is None:
        return False
    command, bound = as_cyclopts_reads(tokens)
    assert call.func is command
    read = dict(zip(bound.arguments, call.args, strict=False)) | call.keywords
    assert {name: bound.arguments[name] for name in read} == read
    rest = {name: value for name, value in bound.arguments.items() if name not in read}
    defaults = {p.name: p.default for p in bound.signature.parameters.values()}
    assert rest == {name: defaults[name] for name in rest}
    return True


def test_commands_are_those_that_are_listed():
    assert {*PLACES} == {*COMMANDS} - {"completion", "store"}


def options_of(name):
    _, bound = as_cyclopts_reads([name, *PLACES_OF_WORDS[name]])
    return dict(_options(bound.signature.parameters.values()))


def ways_of(word, option):
    """An option with a value, in each way of writing it; none where cyclopts has to read it."""
    if option.kind is bool:
        return [[word]]
    if option.kind in (int, float, str) or get_origin(option.kind) is Literal:
        return [[word, sample(option.kind)], [f"{word}={sample(option.kind)}"]]
    return []


def in_few_lines(options):
    """Choices of the options: each is in some of them, and no two are in the same ones."""
    for bit in range(len(options).bit_length()):
        yield [one for number, one in enumerate(options, 1) if number >> bit & 1]


def set_by(option, bound):
    """What a call has where that option alone is given, as it was read among others."""
    read = bound.arguments[option.argument]
    if option.field is None:
        return {option.argument: read}
    given = {option.field: getattr(read, option.field)}
    return {option.argument: replace(bound.signature.parameters[option.argument].default, **given)}


@pytest.mark.parametrize("name", PLACES_OF_WORDS)
def test_every_option_is_read_as_cyclopts_reads_it(name):
    """Many in a line, as cyclopts takes a tenth of a second for each line; then alone the same."""
    places, options = PLACES_OF_WORDS[name], options_of(name)
    left = {word for word, option in options.items() if not ways_of(word, option)}
    assert left <= {"--drop", "--keep", "--column", "--cross", "--null-values"}
    assert not any(same([name, *places, word, "a"]) for word in left)
    ways = {}
    for word, option in options.items():
        ways.setdefault(option, []).extend(ways_of(word, option))
    for chosen in in_few_lines([option for option in ways if ways[option]]):
        for way in (0, -1):
            given = [token for option in chosen for token in ways[option][way]]
            line = [name, *(places + given if way == 0 else given + places)]
            assert same(line), line
            _, bound = as_cyclopts_reads(line)
            for option in chosen:
                call = plainly_read([name, *places, *ways[option][way]])
                assert call.args == tuple(places)
                assert call.keywords == set_by(option, bound), option


@pytest.mark.parametrize(
    "line",
    [
        "train a b --lam .1 --passes 3 -q --json --require-tol --no-header",
        "train a b --solver newton --tol=1e-4 --memory 2GiB --label y",
        "resume run -v",
    ],
)
def test_usual_lines_are_read_here(line):
    assert same(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "", "trian", "--help", "train a", "train a b c", "train a b -z", "train a b --passes",
        "train a b --passes x", "train a b --passes 1_0", "train a b --passes 1e3", "train a b --lam",
        "train a b --label -1", "train a b --label none", "train a b --json=true", "train -- a b",
        "train a b --passes 1 --passes 2", "train a b --help", "train a b --config x",
        "train a b --drop x", "train a b --loss nosuch", "train a b -qv",
        "compare a b --data c", "train a b --header --no-header", "train a b --tol=", "inspect a",
    ],
)  # fmt: skip
def test_all_else_is_left_to_cyclopts(line):
    if line != "inspect a":
        assert plainly_read(line.split()) is None
    else:
        assert same(line.split())


def test_a_variable_that_sets_an_option_is_cyclopts_to_read(monkeypatch):
    assert plainly_read(["resume", "run"])
    monkeypatch.setenv("FEWPASS_LOG_FORMAT", "json")
    assert plainly_read(["resume", "run"]) is None


@pytest.mark.parametrize(
    "line",
    [
        "train a b --no-such", "train --no-such", "train a b c --pases 3 --jsn", "resume --lamda 3",
        "train a b --tolerance 1", "explain a b --klass x", "ingest a b --sep ;", "doctor --quite",
    ],
)  # fmt: skip
def test_an_option_that_is_not_there_is_told_as_cyclopts_errors_are(line):
    with pytest.raises(UsageError) as told:
        plainly_read(line.split())
    with pytest.raises(CycloptsError) as said:
        as_cyclopts_reads(line.split())
    assert str(told.value) == explained(said.value)


@pytest.mark.parametrize("name", sorted(PLACES))
def test_names_of_options_are_those_of_cyclopts(name):
    names = every_name(inspect.signature(app[name].default_command).parameters.values())
    read = app[name].assemble_argument_collection(default_parameter=app.default_parameter)
    every = {n for one in read for n in one.names}
    assert {*names} == {n for n in every if n.startswith("--")}
