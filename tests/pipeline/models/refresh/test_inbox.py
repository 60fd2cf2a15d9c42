"""What a refresh takes of an inbox: every row of a file at rest once, whatever is done to files."""

import itertools
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fewpass.pipeline.models.refresh.inbox import arrivals

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
