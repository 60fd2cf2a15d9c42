"""Command lines as calls: every option of every command sets what it is an option of."""

from inspect import Parameter
from typing import Literal, get_args, get_origin

import pytest

from fewpass.flows import command_line
from fewpass.flows.cli import main
from fewpass.flows.command_line import call_of, every_name
from fewpass.flows.declared_options import arguments_of, options_of, text_of
from fewpass.flows.display.log_lines import form_of_lines
from fewpass.flows.help_pages import about, choices, first_sentence
from fewpass.flows.listed_commands import COMMANDS, command_named, function_of, texts_about
from fewpass.flows.refusals import UsageError


def call(line):
    tokens = line if isinstance(line, list) else line.split()
    words = command_named(tokens)
    return call_of(words, function_of(words), tokens[len(words.split()) :])


def options_and_places(words):
    """A command's options, and words for the arguments and options that it must be given."""
    command = function_of(words)
    options = [*options_of(command)]
    required = [w for o in options if o.default is Parameter.empty
                for w in (o.names[0], "x")]  # fmt: skip
    places = [sample(p)[0] for p in arguments_of(command) if p.required]
    return options, [*places, *required]


def sample(one):
    """A word that an option or an argument takes, and what it means."""
    if get_origin(one.kind) is Literal:
        return (get_args(one.kind)[-1],) * 2
    number = int(max(1, one.form.least or 0))
    means = {int: number + 1, float: 0.25, str: "a=b, c"}
    value = means.get(one.kind, "x.toml")
    return str(value), one.kind(value)


def value_set(read, option):
    """What a call has of an option."""
    holder = read.keywords[option.argument]
    return getattr(holder, option.field) if option.field else holder


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_sets_its_own_value_and_no_other(words, monkeypatch):
    monkeypatch.setattr(command_line, "require_fits", lambda _: None)  # any text will do
    options, required = options_and_places(words)
    names = [name for option in options for name in every_name(option)]
    assert len(names) == len({*names})
    usual = call([*words.split(), *required])
    for option in options:
        if option.names[0] in required:
            continue
        ways = [([name], name != option.negative) for name in every_name(option)]
        if option.kind is not bool:
            text, value = sample(option)
            value = (value,) if option.many else value
            ways = [([option.names[0], text], value), ([f"{option.names[0]}={text}"], value)]
        for way, value in ways:
            for line in ([*required, *way], [*way, *required]):
                read = call([*words.split(), *line])
                assert read.args == usual.args
                assert value_set(read, option) == value
                assert others_of(read, option) == others_of(usual, option)


def others_of(read, but):
    """All that a call has but for one option, without what holds nothing."""
    values = {}
    for name, holder in read.keywords.items():
        fields = vars(holder) if hasattr(holder, "__dataclass_fields__") else {None: holder}
        values |= {(name, field): value for field, value in fields.items()
                   if (name, field) != (but.argument, but.field) and value not in (None, (), False)}  # fmt: skip
    return values


@pytest.mark.parametrize("words", COMMANDS)
def test_everything_is_described_in_a_sentence(words):
    paragraphs, places = about(words)
    texts = texts_about(words).parameters
    every = [*paragraphs, *(text for _, text in places)]
    every += [text_of(option, texts) for option in options_of(function_of(words))]
    assert paragraphs
    for text in every:
        assert first_sentence(text)
        assert text.endswith((".", ".)"))
        assert "`" not in text


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("train a b --additive", "train a b --encode additive"),
        ("train a b --additive splines", "train a b --encode splines"),
        ("train --additive a b", "train a b --encode additive"),
        ("train a b -qv --passes 1e3", "train a b --quiet --verbose --passes 1000"),
        ("train --lam 1/n -- a b", "train a b --lam 1/n"),
        ("train - b", "train stdin:// b"),
        ("train a b --delimiter - --label -1", "train a b --delimiter=- --label=-1"),
        ("ingest a --label y b -q c", "ingest a b c -q --label y"),
    ],
)
def test_what_is_written_otherwise_means_the_same(line, same):
    one, other = call(line), call(same)
    assert (one.func, one.args, one.keywords) == (other.func, other.args, other.keywords)


def test_words_behind_two_hyphens_are_no_options():
    assert call("ingest -- --a -b").args == (("--a",), "-b")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train a b --no-such", "train has no option --no-such. fewpass train --help"),
        ("trian", "Did you mean train?"),
        ("--versoin", "There is no option --versoin."),
        ("train a", "train takes DATASET RUN, and RUN is missing."),
        ("train a b c", "train takes DATASET RUN, and 'c' is too much."),
        ("train a b c --pases 3 --jsn", "train has no option --pases. Did you mean --passes?"),
        ("train --pases 3", "Did you mean --passes?"),
        ("train a b --tolerance 1", "train has no option --tolerance. Did you mean --tol?"),
        ("train a b --max_iter 9", "Did you mean --passes?"),
        ("ingest a b --test_fraction .2", "Did you mean --test-fraction?"),
        ("ingest a b --test-frac .2", "Did you mean --test-fraction?"),
        ("ingest a b --sep=;", "Did you mean --delimiter?"),
        ("train a b --keep c", "train has no option --keep. Did you mean --ingest-into?"),
        ("evaluate a b --top .1", "evaluate has no option --top. Did you mean --lift-at?"),
        ("ingest a b --columns", "ingest has no option --columns. Did you mean --column-copy?"),
        ("columns a", "Write fewpass column-copy DATASET instead."),
        ("predict a b c --bins 3", "predict has no option --bins. It was decided when the model"),
        ("append a b --no-ranks", "append has no option --no-ranks. It was decided when"),
        ("check --bins 3", "check has no option --bins. fewpass check --help"),
        ("train a b -z", "train has no option -z."),
        ("train a b --json=true", "--json takes no value."),
        ("train a b --header --no-header", "--header is given more than once."),
        ("train a b --passes 1_0", "--passes takes a whole number, not '1_0'."),
        ("train a b --passes 1.5", "--passes takes a whole number, not '1.5'."),
        ("inspect a --rows=-1", "--rows takes a whole number of at least 0, not '-1'."),
        ("dashboard --port 70000", "at least 0 and at most 65535, not '70000'."),
        ("train a b --loss hing", 'Invalid value "hing" for --loss. Did you mean "hinge"?'),
        ("methods newtn", 'Did you mean "newton"?'),
        ("methods perceptron", 'Choose from: "auto", "sgd", "asgd",'),
        ("train a b --tol low", "--tol takes a number, not 'low'."),
        ("train a b --label -x", "--label needs a value after it."),
        ("store publish s x", "GENERATION takes a whole number of at least 1, not 'x'."),
        ("forget data", "forget needs --where."),
        ("evaluate a", "evaluate takes RUN... DATASET, and DATASET is missing."),
        ("append a", "append takes DATASET SOURCE..., and SOURCE... is missing."),
        ("predict a b", "predict takes RUN INPUT... OUT, and OUT is missing."),
        ("train a b --memory 3x", '"3x" is no amount of memory.'),
        ("forget a --where (", "--where cannot be read from character 2 on"),
        ("ingest a", "ingest takes SOURCE... DATASET, and DATASET is missing."),
        ("compare a b", "Write fewpass evaluate RUN RUN... DATASET instead."),
        ("head a", "Write fewpass inspect DATASET --rows 20 instead."),
        ("store forget a", "Write fewpass forget STORE --where CONDITION instead."),
        ("warm-up now", "warm-up takes options alone, and 'now' is too much."),
        ("store lst", 'There is no command "store lst". Did you mean store list?'),
    ],
)
def test_what_means_nothing_is_refused_with_advice(line, said, capsys):
    assert main(line.split()) == 2
    assert said in capsys.readouterr().err


def test_lines_of_the_log_are_what_the_environment_says(monkeypatch, capsys):
    assert form_of_lines(None) == "text"
    monkeypatch.setenv("FEWPASS_LOG_FORMAT", "json")
    assert (form_of_lines(None), form_of_lines("text")) == ("json", "text")
    monkeypatch.setenv("FEWPASS_LOG_FORMAT", "xml")
    assert main(["methods"]) == 2
    assert 'FEWPASS_LOG_FORMAT is "xml". Set it to text or json.' in capsys.readouterr().err


def test_a_choice_that_help_lists_is_taken():
    loss = next(o for o in options_of(function_of("train")) if o.names == ("--loss",))
    for word in choices(loss):
        assert call(["train", "a", "b", "--loss", word]).keywords["training"].loss == word
    with pytest.raises(UsageError):
        call(["train", "a", "b", "--loss", "loss"])


@pytest.mark.parametrize("name, other", [("no-clip", "clip"), ("q", "quiet")])
def test_help_knows_an_option_by_each_of_its_names(name, other, capsys):
    said = []
    for one in (name, other):
        assert main(["train", "--help", one]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""
