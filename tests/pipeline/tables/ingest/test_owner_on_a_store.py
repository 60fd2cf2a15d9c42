"""An ingest into a store, and a change of a set there, has one owner, wherever processes run."""

import time

import numpy as np
import pytest

from fewpass.pipeline.errors import BusyPlace
from fewpass.pipeline.lease import Holder, LeaseLost
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.changing.appending import append
from fewpass.pipeline.tables.changing.forgetting import forget
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.row_parts import RowParts
from fewpass.pipeline.tables.ingest.work_dir import OWNER
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal
from fewpass.storage.writer import DatasetWriter
from testing.object_store import object_store


@pytest.fixture(scope="module")
def store():
    with object_store("owned") as made:
        yield made


@pytest.fixture
def plan(store, tmp_path):
    X = np.random.default_rng(1).standard_normal((300, 3)).round(2)
    rows = (f"{int(x > 0)},{x},{y},{z}" for x, y, z in X)
    (tmp_path / "rows.csv").write_text("y,a,b,c\n" + "\n".join(rows) + "\n")
    return IngestPlan(
        sources=(str(tmp_path / "rows.csv"),), dataset=f"s3://owned/{tmp_path.name}",
        options={"label": "y"}, storage_options=store.options,
    )  # fmt: skip


@pytest.fixture(params=[False, True], ids=["threads", "tasks"])
def executor(request):
    with open_executor(Execution(threads=2)) as made:
        yield made if request.param else None


def work_of(plan):
    return Folder(plan.dataset, plan.storage_options).child(".ingest")


def lease_of_another(plan, renewed):
    """What a process on another machine writes that works there."""
    other = Holder.myself()._replace(host="elsewhere", machine="another", renewed=renewed)
    work_of(plan).write(OWNER, seal(other._asdict()))


def test_the_second_of_two_is_refused_and_takes_over_from_the_dead(plan, executor):
    lease_of_another(plan, time.time())
    with pytest.raises(
        BusyPlace, match=r"\.ingest is being written to, .* on elsewhere"
    ) as refused:
        ingest(plan, executor=executor)
    assert "it is not waited for after 60 s" in str(refused.value)
    lease_of_another(plan, time.time() - 61)
    assert ingest(plan, executor=executor).rows == 300
    assert work_of(plan).list() == []


def test_one_that_was_taken_for_dead_commits_nothing(plan, executor, monkeypatch):
    run = RowParts.run

    def overtaken(*given):
        lease_of_another(plan, time.time())
        return run(*given)

    monkeypatch.setattr(RowParts, "run", overtaken)
    with pytest.raises(LeaseLost, match="taken over by process"):
        ingest(plan, executor=executor)
    assert not Folder(plan.dataset, plan.storage_options).exists("manifest.json")
    assert work_of(plan).exists(OWNER)


def test_what_a_finished_set_has_left_in_a_store_is_removed_by_the_next_call(plan, executor):
    made = ingest(plan, executor=executor)
    work_of(plan).write("spans/000000-0000", b"rows")
    assert ingest(plan).fingerprint == made.fingerprint
    assert work_of(plan).list() == []


@pytest.mark.parametrize("change", ["append", "forget"])
def test_a_change_that_was_taken_for_dead_commits_nothing(plan, change, tmp_path, monkeypatch):
    ingest(plan.model_copy(update={"keep": ("a",)}))
    folder = Folder(plan.dataset, plan.storage_options)
    before = folder.read("manifest.json")
    own = DatasetWriter.write_columns

    def overtaken(*given):
        lease_of_another(plan, time.time())
        return own(*given)

    monkeypatch.setattr(DatasetWriter, "write_columns", overtaken)
    place = {"dataset": plan.dataset, "storage_options": plan.storage_options, "threads": 1}
    more = tmp_path / "more.csv"
    more.write_text("y,a,b,c\n" + "1,0.5,0.5,0.5\n" * 9)
    with pytest.raises(LeaseLost, match="taken over by process"):
        if change == "append":
            append(AppendPlan(sources=(str(more),), **place))
        else:
            forget(ForgetPlan(where="a > 0", **place))
    assert folder.read("manifest.json") == before
