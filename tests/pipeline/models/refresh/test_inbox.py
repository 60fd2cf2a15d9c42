"""What a refresh takes of an inbox: every row of a file at rest once, whatever is done to files."""

import errno
import itertools
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import fsspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.inbox import Arrivals, arrivals
from fewpass.pipeline.models.refresh.store_state import store_at
from fewpass.pipeline.models.refresh.taking import take
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.dataset import Dataset
from fewpass.storage.source_file import SourceChanged
from testing.object_store import object_store
from testing.refreshing import EndsBefore, Interrupted, plan_of, refresh, write_rows

NAMES = st.sampled_from(["a.csv", "b.csv", "c.csv", "sub/a.csv"])


class Store:
    """The least that a store has to do with what arrives: rows by generation."""

    def __init__(self):
        self.states, self.rows = {}, {}

    def refresh(self, sources, **settle):
        found = arrivals(sources, self.states, **settle)
        for number, then, now in found.moved:
            self.states[number] = tuple(now if one == then else one for one in self.states[number])
        for number, files, _ in found.changed:
            self._take(number, files)
        if found.new:
            self._take(len(self.states) + 1, found.new)
        return found

    def _take(self, number, files):
        self.states[number] = files
        self.rows[number] = [int(r) for one in files for r in Path(one.name).read_text().split()]

    def all_rows(self):
        return Counter(row for rows in self.rows.values() for row in rows)


class Inode:
    """A file, whatever it is called: each of its rows has a number that no other row has."""

    def __init__(self):
        self.rows, self.ever = [], set()
        self.taken = None  # its rows of the last refresh that took it
        self.names_then = set()
        self.dirty = self.renamed = False  # since then
        self.is_known = True  # by which name


class InboxMachine(RuleBasedStateMachine):
    """Everything that is done to files, and the rows that a store has to have after a refresh.

    A file that was both changed and renamed between two refreshes is another one, as nobody could
    know; so here these two do not meet.
    """

    def __init__(self):
        super().__init__()
        self.top = Path(tempfile.mkdtemp())
        self.inbox, self.count = self.top / "inbox", itertools.count(1)
        (self.inbox / "sub").mkdir(parents=True)
        self.store, self.names, self.lost = Store(), {}, []

    def teardown(self):
        shutil.rmtree(self.top)

    @initialize(n=st.integers(0, 2))
    def begin(self, n):
        """Two files in one generation, another one in the next."""
        for name in ["a.csv", "b.csv"][:n]:
            self.write_anew(name, 2)
        self.refresh()
        if n:
            self.write_anew("c.csv", 2)
            self.refresh()

    # -- what is done to files ---------------------------------------------------------------------

    def save(self, name, inode, rows):
        new = [next(self.count) for _ in range(rows)]
        inode.rows += new
        inode.ever |= set(new)
        path = self.inbox / name
        with path.open("w") as file:
            file.write("".join(f"{row}\n" for row in inode.rows))
        self.touched(name)

    def touched(self, name):
        when = 10**18 + next(self.count)
        os.utime(self.inbox / name, ns=(when, when))
        self.names[name].dirty = True

    def may_change(self, name):
        return name in self.names and not self.names[name].renamed

    def may_lose(self, name):
        """Whether a name may go: not one of several of a file that has changed."""
        inode = self.names.get(name)
        return inode is None or not (inode.dirty and inode.taken and self.others(name))

    def others(self, name):
        return [one for one, inode in self.names.items() if inode is self.names[name] != name]

    def lose(self, name):
        inode = self.names.pop(name, None)
        if inode is None:
            return
        if inode in self.names.values():
            inode.renamed = True
        elif inode.taken is not None:
            self.lost.append(inode)

    @rule(name=NAMES, n=st.integers(0, 3))
    def write_anew(self, name, n):
        if self.may_lose(name):
            self.lose(name)
            (self.inbox / name).unlink(missing_ok=True)
            self.names[name] = Inode()
            self.save(name, self.names[name], n)

    @rule(name=NAMES, n=st.integers(0, 3))
    def rewrite_in_place(self, name, n):
        if self.may_change(name):
            self.names[name].rows = []
            self.save(name, self.names[name], n)

    @rule(name=NAMES)
    def append(self, name):
        if self.may_change(name):
            self.save(name, self.names[name], 1)

    @rule(name=NAMES)
    def touch(self, name):
        if self.may_change(name):
            self.touched(name)

    @rule(name=NAMES)
    def delete(self, name):
        if self.may_lose(name):
            self.lose(name)
            (self.inbox / name).unlink(missing_ok=True)

    @rule(name=NAMES, to=NAMES)
    def rename(self, name, to):
        inode = self.names.get(name)
        if inode is None or inode is self.names.get(to) or not self.may_lose(to):
            return
        if inode.taken is None or not inode.dirty:
            self.lose(to)
            (self.inbox / name).rename(self.inbox / to)
            self.names[to] = self.names.pop(name)
            inode.renamed = inode.taken is not None

    @rule(name=NAMES, to=NAMES)
    def link(self, name, to):
        if name in self.names and to not in self.names:
            (self.inbox / to).hardlink_to(self.inbox / name)
            self.names[to] = self.names[name]

    @rule(name=NAMES)
    def point(self, name):
        """A link, to nothing maybe."""
        link = self.inbox / "link.csv"
        link.unlink(missing_ok=True)
        link.symlink_to(name)

    # -- what has to come of it --------------------------------------------------------------------

    @rule()
    def refresh(self):
        self.check(self.store.refresh(self.sources))

    @rule(name=NAMES)
    def refresh_while_one_is_written(self, name):
        """By a clock that says that all files are of the future."""
        found = self.store.refresh(
            self.sources, settle_s=1.0, clock=lambda: 0.0, wait=lambda _: self.append(name)
        )
        self.check(found)

    @rule()
    def refresh_after_all_has_moved(self):
        self.refresh()
        if not any(inode.dirty for inode in self.names.values()):
            self.inbox = self.inbox.rename(self.top / f"inbox{next(self.count)}")
            for inode in self.lost:
                inode.names_then = set()
            found = self.store.refresh(self.sources)
            assert found.new == found.changed == ()
            self.check(found)

    @property
    def sources(self):
        return [f"{self.inbox}/**/*.csv", f"{self.inbox}/*.csv"]

    def check(self, found):
        left_out = [*found.growing, *(one.file for one in found.cannot_replace)]
        waits = {self.names[os.path.relpath(one.path, self.inbox)] for one in left_out}
        rows = self.store.all_rows()
        assert not [row for row, times in rows.items() if times > 1]
        for inode in {*self.names.values()} - waits:
            assert inode.ever & rows.keys() == set(inode.rows)
        for inode in {*self.names.values()} & waits:
            assert inode.ever & rows.keys() == set(inode.taken or ())
        for inode in [*self.lost]:
            self.check_lost(inode, waits, rows)
        for inode in {*self.names.values()} - waits:
            inode.taken, inode.dirty, inode.renamed = [*inode.rows], False, False
            inode.names_then = {one for one, there in self.names.items() if there is inode}

    def check_lost(self, inode, waits, rows):
        """Rows of what went away stay, unless something else was written in its place."""
        learnt = inode.ever & rows.keys()
        names = inode.names_then & self.names.keys()
        holders = {self.names[one] for one in names}
        written = {one for one in holders - waits if one.taken is None}
        if len(inode.names_then) > 1 or any(self.others(one) for one in names):
            inode.is_known = False  # by which of several names is up to the store
        if inode.is_known:
            assert learnt == (set() if written else set(inode.taken))
        assert learnt in (set(), set(inode.taken))
        if not learnt:
            self.lost = [one for one in self.lost if one is not inode]
        elif holders - waits - written:  # a file that was renamed
            inode.names_then = set()


InboxMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
test_every_row_of_a_file_at_rest_is_learnt_once = InboxMachine.TestCase


# -- files that are still written ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "grows", "waited", "taken"),
    [
        (10, False, [], True),  # its time is before all that counts
        (1.5, False, [0.5], True),
        (0, True, [2.0], False),
        (-(10**9), False, [2.0], True),  # a clock that is years ahead: no reason to wait for ever
        (-(10**9), True, [2.0], False),
    ],
)
def test_what_was_written_a_moment_ago_is_looked_at_twice(tmp_path, age, grows, waited, taken):
    file = tmp_path / "a.csv"
    file.write_text("1\n")
    os.utime(file, ns=(0, 2 * 10**18 - int(age * 1e9)))
    pauses = []

    def wait(seconds):
        pauses.append(seconds)
        if grows:
            file.write_text("1\n2\n")

    found = arrivals([f"{tmp_path}/*"], {}, settle_s=2.0, clock=lambda: 2e9, wait=wait)
    assert pauses == pytest.approx(waited)
    assert (len(found.new), len(found.growing)) == (taken, not taken)
    again = arrivals([f"{tmp_path}/*"], {1: found.new}, wait=pauses.append)
    assert again == Arrivals(again.new)
    assert bool(again.new) != taken
    assert len(pauses) == len(waited)


def test_a_file_that_was_moved_to_another_disk_is_the_same_and_a_copy_is_not(tmp_path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    here, there = tmp_path / "here/a.csv", tmp_path / "there/a.csv"
    here.write_text("1\n")
    sources = [f"{tmp_path}/*/*.csv"]
    taken = {1: arrivals(sources, {}).new}
    shutil.copy2(here, there)
    assert [one.name for one in arrivals(sources, taken).new] == [str(there)]
    assert [one.name for one in arrivals([f"{there}"], taken).new] == [str(there)]
    here.unlink()
    found = arrivals(sources, taken)
    assert found == Arrivals(moved=found.moved)
    assert [(one.generation, one.now.name) for one in found.moved] == [(1, str(there))]


def test_unfinished_copies_and_what_is_no_file_are_no_arrivals(tmp_path):
    for name in (".a.csv.Xy7", "sub/.part/b.csv", "a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    (tmp_path / "empty").mkdir()
    sources = [f"{tmp_path}/*", f"{tmp_path}/**/*.csv", f"{tmp_path}/empty", f"{tmp_path}/no.csv"]
    assert [Path(one.name).name for one in arrivals(sources, {}).new] == ["a.csv"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="pipe"):
        arrivals([f"{tmp_path}/*"], {})


def test_what_was_refused_is_passed_over_as_long_as_it_is_as_it_was(tmp_path):
    one, two = (tmp_path / name for name in ("1.csv", "2.csv"))
    one.write_text("1\n")
    (state,) = arrivals([f"{tmp_path}/*"], {}).new
    assert arrivals([f"{tmp_path}/*"], {}, [state]) == Arrivals()
    one.write_text("1\n2\n")
    assert len(arrivals([f"{tmp_path}/*"], {}, [state]).new) == 1

    # Nothing of a generation is read anew while one of its files is refused.
    two.write_text("3\n")
    taken = {4: arrivals([f"{tmp_path}/*"], {}).new}
    for path in (one, two):
        path.write_text("damaged\n")
    (replaced,) = arrivals([f"{tmp_path}/*"], taken).changed
    assert (replaced.generation, len(replaced.files), len(replaced.changed)) == (4, 2, 2)
    found = arrivals([f"{tmp_path}/*"], taken, replaced.files[:1])
    assert (found.new, found.changed) == ((), ())
    (fault,) = found.cannot_replace
    assert (fault.file, fault.generation) == (replaced.files[1], 4)
    assert "1.csv" in fault.reason


# -- stores ----------------------------------------------------------------------------------------


def test_what_one_look_did_not_learn_tells_nothing():
    """Web servers may say neither length nor version."""
    at = {"name": "http://server/a.csv", "place": "http://server/a.csv"}
    known = FileState(**at, bytes=10, version="x")
    for size, version, is_other in ((10, None, 0), (None, None, 0), (11, None, 1), (10, "y", 1)):
        other = FileState(**at, bytes=size, version=version)
        assert known.differs(other) == other.differs(known) == is_other


def test_objects_are_known_by_their_etag_whoever_writes_and_however_they_are_named(monkeypatch):
    with object_store("inboxes") as (_, options, _environment):
        monkeypatch.setitem(fsspec.config.conf, "s3", options)
        others = fsspec.filesystem("s3", **options, skip_instance_cache=True)
        others.call_s3(
            "put_bucket_versioning", Bucket="inboxes", VersioningConfiguration={"Status": "Enabled"}
        )
        for name in "ab":
            others.pipe_file(f"inboxes/in/{name}.csv", name.encode())
        ways = ["s3://inboxes/in/*.csv"], ["s3://inboxes/in"], [
            f"s3://inboxes/in/{name}.csv" for name in "ab"
        ]  # fmt: skip
        taken = {1: arrivals(ways[0], {}).new}
        others.pipe_file("inboxes/in/a.csv", b"a")  # the same once more
        for sources in ways:
            assert arrivals(sources, taken) == Arrivals()
        others.pipe_file("inboxes/in/a.csv", b"c")
        others.pipe_file("inboxes/in/d.csv", b"d")
        found = arrivals(ways[0], taken)
        assert [one.name for one in found.new] == ["s3://inboxes/in/d.csv"]
        ((number, files, changed),) = found.changed
        assert (number, len(files)) == (1, 2)
        assert [one.name for one in changed] == ["s3://inboxes/in/a.csv"]
        others.rm_file("inboxes/in/b.csv")
        ((file, number, reason),) = arrivals(ways[0], taken).cannot_replace
        assert (file.name, number) == ("s3://inboxes/in/a.csv", 1)
        assert "b.csv" in reason


# -- in a store ------------------------------------------------------------------------------------


def rows_of(path):
    return len(path.read_text().splitlines()) - 1


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    for name in "ab":
        write_rows(folder / f"{name}.csv", ord(name))
    return folder


def files_of(plan):
    return [
        [Path(file.name).name for file in one.files] for one in store_at(plan.store).generations
    ]


def rows_learnt(plan):
    store = store_at(plan.store)
    return sum(Dataset.open(store.data_of(night)).n_rows for night in store.past.used)


def test_a_folder_that_was_renamed_has_no_new_files(inbox, tmp_path):
    plan = plan_of(tmp_path)
    refresh(plan)
    inbox.rename(tmp_path / "elsewhere")
    moved = plan.model_copy(update={"sources": (f"{tmp_path}/elsewhere/*.csv",)})
    assert refresh(moved).state == "unchanged"
    (taken,) = store_at(plan.store).generations
    assert {Path(file.name).parent.name for file in taken.files} == {"elsewhere"}


def test_what_is_written_while_it_is_read_leaves_the_generation_and_is_taken_whole(inbox, tmp_path):
    plan, times = plan_of(tmp_path), itertools.count()

    def written_to(asked):
        if next(times) == 0:
            with (inbox / "a.csv").open("a") as file:
                file.write("1,0,0,0\n")
            raise SourceChanged(errno.ESTALE, "it changed", str(inbox / "a.csv"))
        return ingest(asked)

    class Writes(RefreshWork):
        def take(self, *of):
            return take(*of, written_to)

    refresh(plan, Writes())
    assert files_of(plan) == [["b.csv"]]
    assert [Path(one.file.name).name for one in store_at(plan.store).refused] == ["a.csv"]
    refresh(plan)
    assert files_of(plan) == [["b.csv"], ["a.csv"]]
    assert rows_learnt(plan) == rows_of(inbox / "a.csv") + rows_of(inbox / "b.csv")
    assert store_at(plan.store).refused == ()


def test_a_generation_that_goes_on_later_is_known_by_what_it_reads_then(inbox, tmp_path):
    plan = plan_of(tmp_path)
    with pytest.raises(Interrupted):
        refresh(plan, EndsBefore(0))
    write_rows(inbox / "a.csv", 9)
    refresh(plan)
    assert refresh(plan).state == "unchanged"
    assert files_of(plan) == [["a.csv", "b.csv"]]
