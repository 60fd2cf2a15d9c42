"""What a command imports: a list of modules, never a time."""

import contextlib

import pytest

from benchmarks.first_row import FirstRow, as_line
from benchmarks.startup import (
    COMMANDS,
    TRAININGS,
    Command,
    Import,
    imports,
    prepare,
    tell_first_rows,
    tree,
    unneeded,
)
from fewpass.flows import cli
from fewpass.pipeline.settings.formats import EXTENSIONS, FORMATS, TABLES
from fewpass.pipeline.tables.readers.format_guess import reader_class


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("startup")
    prepare(made, here)
    return made


def here(words, folder):
    """In this process, which has imported everything."""
    with contextlib.chdir(folder):
        assert cli.main([*words, "-q"]) == 0


@pytest.mark.parametrize("title", COMMANDS)
def test_commands_import_nothing_heavy_that_they_do_not_need(title, folder):
    if title in ("resume", "evaluate", "inspect") and not (folder / "run").exists():
        imports(COMMANDS["train"].words, folder)
    command = COMMANDS[title]
    found = imports(command.words, folder)
    assert len(found) > 100
    assert not unneeded(command, found)


def test_a_needless_import_is_told_and_the_tree_has_importers_first():
    found = [Import("dask.config", 1, 5, 5), Import("dask", 0, 20_000, 20_005)]
    assert unneeded(Command(("x",)), found) == ["dask"]
    assert not unneeded(Command(("x",), ("dask",)), found)
    assert [line.split()[-1] for line in tree(found, 1)] == ["dask", "dask.config"]


def test_endings_of_names_are_those_of_the_readers():
    readers = {word: reader_class(word) for word in (*TABLES, *FORMATS)}
    told = {ending: word for word, reader in readers.items() for ending in reader.extensions}
    assert told == EXTENSIONS


def test_trainings_end_when_they_stepped_their_first_row(folder, capsys):
    tell_first_rows(folder, runs=1)
    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told] == [
        f"fewpass {' '.join(COMMANDS[title].words[:3])}" for title in TRAININGS
    ]
    for run in ("run-0", "straight-1"):
        assert (folder / run / "run.json").exists()
        assert not (folder / run / "snapshots").exists()


def test_first_rows_are_told_by_least_and_median():
    found = [FirstRow(3.0, 0.5), FirstRow(1.0, 0.9), FirstRow(2.0, 0.7)]
    assert as_line("x", found) == (
        "x: first row after 1.00 s (median 2.00), 0.50 CPU s (median 0.70), 3 runs"
    )
