"""Two changes at once: a model of the protocol, whose programs are what the code was seen to do.

Every change of a data set and its test rows is run once, and its steps on what all share are noted:
locks, openings, commits, removals.  A search of all states then tries every interleaving of the
steps of any two, and of one that is killed anywhere, against the laws in `Shared`.
"""

import itertools
import shutil
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import fewpass
from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.tables.changing import one_change
from fewpass.pipeline.tables.ingest import phases
from fewpass.pipeline.tables.ingest.target import IngestTarget
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder, NotADataset
from fewpass.storage.manifest import KEY
from fewpass.storage.writer import DatasetWriter
from testing.interruptions import Killed

SETS = ("D", "D-test")


def write_rows(path, first, n):
    lines = (f"{k},{k % 17},{k * 7 % 23},{k % 2}\n" for k in range(first, first + n))
    path.write_text("id,a,b,y\n" + "".join(lines))
    return str(path)


HOW = {"label": "y", "keep": "id", "test_fraction": 0.3, "threads": 1, "encode": "none"}
CHANGES = {
    "append": lambda: fewpass.append("D", "new.csv", threads=1),
    "forget": lambda: fewpass.forget("D", "id < 9", threads=1, allow_none=True),
    "append to test rows": lambda: fewpass.append("D-test", "more.csv", threads=1),
    "forget of test rows": lambda: fewpass.forget("D-test", "id < 9", threads=1, allow_none=True),
    "ingest": lambda: fewpass.ingest("new.csv", "D", overwrite=True, **HOW),
    "ingest, unfinished work elsewhere": lambda: fewpass.ingest(
        "new.csv", "D", overwrite=True, spill="spill", **HOW
    ),
    "columns": lambda: phases.copy_by_column("D", 1 << 27),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A data set with test rows, and files to append to it."""
    place = tmp_path_factory.mktemp("home")
    write_rows(place / "old.csv", 0, 60)
    write_rows(place / "new.csv", 100, 30)
    write_rows(place / "more.csv", 200, 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        fewpass.ingest("old.csv", "D", **HOW)
    return place


@pytest.fixture
def afresh(home, tmp_path, monkeypatch):
    """Make the folder that one works in as `home` is."""

    def made():
        monkeypatch.chdir("/")
        shutil.rmtree(tmp_path / "at", ignore_errors=True)
        shutil.copytree(home, tmp_path / "at")
        monkeypatch.chdir(tmp_path / "at")

    made()
    return made


# -- what the code does ------------------------------------------------------------------------------


class Step(NamedTuple):
    """What a change does to what all share."""

    does: str  # lock, unlock, open, begin, commit, remove, clear
    to: str  # one of `SETS`


def _set_of(folder):
    path = Path(folder.url)
    return path.name if path.parent == Path.cwd() and path.name in SETS else None


@contextmanager
def noted(steps):
    """Note the steps of what runs meanwhile."""

    def note(does, folder):
        if (name := _set_of(folder)) is not None:
            steps.append(Step(does, name))

    def before(owner, method, does, of=lambda self, *_: self.folder):
        own = getattr(owner, method)

        def call(*arguments, **words):
            note(does, of(*arguments))
            return own(*arguments, **words)

        patch.setattr(owner, method, call)

    @contextmanager
    def owned(self, own=WorkDir.owned):
        home = Folder(str(self.path.parent))
        with own(self):
            note("lock", home)
            yield
            note("unlock", home)

    opened = Dataset.__dict__["open"].__func__

    def open_(cls, url, *arguments, **words):
        folder = url if isinstance(url, Folder) else Folder(url)
        note("open", folder)
        return opened(cls, url, *arguments, **words)

    commit = DatasetWriter.commit

    def committed(self, *arguments, **words):
        made = commit(self, *arguments, **words)
        note("commit", words.get("home") or self.folder)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkDir, "owned", owned)
        patch.setattr(Dataset, "open", classmethod(open_))
        patch.setattr(DatasetWriter, "commit", committed)
        before(IngestTarget, "clear", "clear")
        before(one_change.NextGeneration, "__init__", "begin", lambda _made, one, *_: one.folder)
        before(one_change, "prune_generations", "remove", lambda folder, _: folder)
        before(phases, "write_columns", "write", lambda dataset, *_: dataset.folder)
        yield


def steps_of(change):
    steps = []
    with noted(steps):
        change()
    return tuple(step for step, _ in itertools.groupby(steps))


# -- the model ---------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A change under way."""

    at: int = 0  # steps done
    seen: tuple = (None, None)  # the generation of each set that it opened last
    committed: bool = False
    ended: str = ""  # done, refused or killed


class Shared(NamedTuple):
    """What two changes share: of each set its present generation, its objects and its lock."""

    present: tuple = (1, 1)
    there: tuple = (frozenset({1}), frozenset({1}))
    locks: tuple = (None, None)

    def broken(self):
        """Say which law does not hold."""
        for name, present, there in zip(SETS, self.present, self.there, strict=True):
            if present is not None and present not in there:
                return f"the present generation of {name} is gone"
        return None


def put(values, k, value):
    return (*values[:k], value, *values[k + 1 :])


def done(step, who, process, shared, number):
    """Return what a step makes of a process and of what is shared; or a law that it breaks."""
    k = SETS.index(step.to)
    seen, present, there = process.seen[k], shared.present[k], shared.there[k]
    forward = process._replace(at=process.at + 1)
    if step.does == "lock":
        if shared.locks[k] not in (None, who):
            law = "refused when half of it was done" if process.committed else None
            return ended(process, "refused"), freed(shared, who), law
        return forward, shared._replace(locks=put(shared.locks, k, who)), None
    if step.does == "unlock":
        return forward, shared._replace(locks=put(shared.locks, k, None)), None
    if step.does == "open":
        if present is None:
            return ended(process, "refused"), freed(shared, who), None
        return forward._replace(seen=put(process.seen, k, present)), shared, None
    law = None if shared.locks[k] == who else f"{step.does} of {step.to} without its lock"
    if step.does == "clear":
        empty = shared._replace(
            present=put(shared.present, k, None), there=put(shared.there, k, frozenset())
        )
        return forward._replace(seen=put(process.seen, k, None)), empty, law
    if seen != present:
        law = law or f"{step.does} of {step.to}, which is another than was opened"
    if step.does == "commit":
        after = shared._replace(
            present=put(shared.present, k, number), there=put(shared.there, k, there | {number})
        )
        return (
            forward._replace(seen=put(process.seen, k, number), committed=True), after, law
        )  # fmt: skip
    if step.does == "remove":
        return forward, shared._replace(there=put(shared.there, k, there & {seen})), law
    return forward, shared, law


def ended(process, how):
    return process._replace(ended=how)


def freed(shared, who):
    return shared._replace(locks=tuple(None if one == who else one for one in shared.locks))


def explored(programs, kills=False):
    """Return all states of two programs, how they end, and the first way to a broken law."""
    start = (tuple(Process() for _ in programs), Shared())
    came_from, left, ends = {start: None}, [start], Counter()
    while left:
        state = left.pop()
        processes, shared = state
        alive = [who for who, one in enumerate(processes) if not one.ended]
        if not alive:
            ends[tuple(one.ended for one in processes)] += 1
        for who in alive:
            own, program = processes[who], programs[who]
            if own.at == len(program):
                found = [(ended(own, "done"), shared, None)]
            else:
                number = 100 * (who + 1) + own.at  # of a generation that it may commit
                found = [done(program[own.at], who, own, shared, number)]
            if kills and all(one.ended != "killed" for one in processes):
                found.append((ended(own, "killed"), freed(shared, who), None))
            for process, after, law in found:
                then = (put(processes, who, process), after)
                if law := law or after.broken():
                    return came_from, ends, (law, way_to(came_from, state, programs), who)
                if then not in came_from:
                    came_from[then] = (state, who)
                    left.append(then)
    return came_from, ends, None


def way_to(came_from, state, programs):
    way = []
    while came_from[state] is not None:
        state, who = came_from[state]
        at = state[0][who].at
        way.append((who, programs[who][at] if at < len(programs[who]) else "end"))
    return way[::-1]


@pytest.fixture(scope="module")
def programs(home, tmp_path_factory):
    """The steps of each change, as it was seen to do them."""
    found = {}
    for name, change in CHANGES.items():
        at = tmp_path_factory.mktemp("seen") / "at"
        shutil.copytree(home, at)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(at)
            found[name] = steps_of(change)
    return found


def test_every_change_locks_what_it_changes_in_one_order(programs):
    for name, steps in programs.items():
        locks = [step.to for step in steps if step.does == "lock"]
        assert locks == [one for one in SETS if one in locks] != [], name
        changed = {step.to for step in steps if step.does in ("commit", "write")}
        assert changed and changed <= set(locks), name


@pytest.mark.parametrize("pair", list(itertools.combinations_with_replacement(CHANGES, 2)))
def test_no_interleaving_of_two_changes_breaks_a_law(programs, pair):
    both = [programs[name] for name in pair]
    states, ends, broken = explored(both)
    assert broken is None, broken
    assert len(states) > sum(map(len, both))
    assert ("done", "done") in ends  # one after the other
    assert ("refused", "refused") not in ends
    assert (("done", "refused") in ends) == shares_a_lock(both)
    _, ends, broken = explored(both, kills=True)
    assert broken is None, broken
    assert ("killed", "done") in ends


def shares_a_lock(programs):
    one, two = ({step.to for step in steps if step.does == "lock"} for steps in programs)
    return bool(one & two)


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ("open D-test, lock D, open D, lock D-test, begin D-test, commit D-test", "another than"),
        ("open D, begin D, commit D, remove D", "without its lock"),
        ("lock D, open D, begin D, commit D, lock D-test, open D-test", "half of it"),
    ],
)
def test_the_model_tells_wrong_protocols(programs, wrong, law):
    steps = tuple(Step(*words.split()) for words in wrong.split(", "))
    found = [explored([steps, other])[2] for other in programs.values()]
    assert any(broken is not None and law in broken[0] for broken in found)


# -- the code, with one change within another --------------------------------------------------------


def every_id(name):
    rows = fewpass.Dataset(name).to_arrow().column("id").to_pylist()
    assert not list(Dataset.open(name).verify()), f"{name} is damaged"
    return rows


def ids():
    """All ids, each once; None where there is no data set."""
    try:
        found = [one for name in SETS for one in every_id(name)]
    except NotADataset:
        return None
    assert len(found) == len(set(found)), "a row twice"
    return set(map(int, found))


OLD, NEW = set(range(60)), set(range(100, 130))
RESULTS = {
    "append": lambda before: before | NEW,
    "forget": lambda before: before - set(range(9)),
    "ingest": lambda before: NEW,
}
#: What a change does to a folder; the other one comes before or after each.
CALLS = ("write", "delete", "delete_tree", "sync", "read")


@pytest.mark.parametrize(
    "pair", [pair for pair in itertools.product(RESULTS, repeat=2) if pair != ("ingest", "ingest")]
)
def test_a_change_within_another_comes_before_it_or_is_refused(afresh, pair):
    first, second = (CHANGES[name] for name in pair)

    def run(at):
        """Run the first change, and the second one at its k-th call; return how each ended."""
        afresh()
        ends, calls = {}, [0]

        def call_of(own):
            def call(*arguments, **words):
                calls[0] += 1
                if calls[0] == at:
                    ends["second"] = outcome(second)
                return own(*arguments, **words)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(Folder, name, call_of(getattr(Folder, name)))
            ends["first"] = outcome(first)
        return calls[0], ends

    n_calls, _ = run(-1)
    for at in range(1, n_calls + 1, 7):
        _, ends = run(at)
        done_ = [name for name, which in zip(pair, ("first", "second"), strict=True)
                 if ends[which] is None]  # fmt: skip
        assert done_, ends
        refused = [end for end in ends.values() if end is not None]
        assert all(isinstance(end, BusyPlace | NotADataset) for end in refused), ends
        orders = [OLD]
        for order in itertools.permutations(done_):
            rows = OLD
            for name in order:
                rows = RESULTS[name](rows)
            orders.append(rows)
        assert ids() in orders[1:], (at, ends)
        assert not list(Path().rglob("lock"))


@pytest.mark.parametrize("name", CHANGES)
def test_a_set_that_an_ingest_replaces_is_busy(afresh, monkeypatch, name):
    """Its manifest is there still, and its record is not."""
    afresh()
    ends, deleted, change = [], Folder.delete, CHANGES[name]

    def delete(folder, key):
        if key == KEY:
            ends.append(outcome(change))
        deleted(folder, key)

    monkeypatch.setattr(Folder, "delete", delete)
    CHANGES["ingest"]()
    assert ends
    assert all(isinstance(end, BusyPlace) for end in ends), ends


def outcome(change):
    try:
        change()
    except (BadInput, NotADataset, Damaged) as error:
        return error
    return None


# -- killed, then another ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "then",
    ["forget", "another append", "append", "forget of test rows", "append to test rows"],
)
def test_an_append_that_was_killed_anywhere_leaves_no_row_twice_and_none_behind(afresh, then):
    """Test rows that came without the training rows go back, whatever is done next."""
    held_out = {*map(int, every_id("D-test"))}
    others = {
        "forget": (CHANGES["forget"], RESULTS["forget"]),
        "forget of test rows": (
            CHANGES["forget of test rows"],
            lambda rows: rows - (set(range(9)) & held_out),
        ),
        "append to test rows": (
            CHANGES["append to test rows"],
            lambda rows: rows | set(range(200, 210)),
        ),
        "another append": (
            lambda: fewpass.append("D", "more.csv", threads=1),
            lambda rows: rows | set(range(200, 210)),
        ),
        "append": (CHANGES["append"], lambda rows: rows | NEW),
    }
    change, result = others[then]
    writes = [0]

    def killing(number):
        own = Folder.write

        def write(self, key, *arguments, **words):
            counts = key == KEY and _set_of(self) is not None
            writes[0] += counts
            own(self, key, *arguments, **words)
            if counts and writes[0] == number:
                raise Killed

        return write

    for number in (1, 2):  # the manifest of the test rows, of the training rows
        afresh()
        writes[0] = 0
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(Folder, "write", killing(number))
            CHANGES["append"]()
        came = OLD if number == 1 else OLD | NEW
        change()
        assert ids() == result(came)
        CHANGES["append"]()
        assert ids() == result(came) | NEW
