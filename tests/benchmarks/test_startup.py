"""What a command imports: a list of modules, never a time."""

import pytest

from benchmarks.startup import COMMANDS, Command, Import, imports, prepare, tree, unneeded
from pipeline.settings.formats import EXTENSIONS, FORMATS, TABLES
from pipeline.sources.opening import rows_class, source_class


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("startup")
    prepare(made)
    return made


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
    readers = {word: rows_class(word) for word in TABLES}
    readers |= {word: source_class(word) for word in FORMATS if word not in TABLES}
    told = {ending: word for word, reader in readers.items() for ending in reader.extensions}
    assert told == EXTENSIONS
