"""Damage to what an unfinished ingest has partitioned: the same data set, or a refusal that names it."""

from pathlib import Path

import numpy as np
import pytest

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest import mapping, phases, row_parts
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.dataset import Dataset
from fewpass.storage.part_files import DamagedPart
from fewpass.storage.seal import seal, unseal
from fewpass.storage.writer import DatasetWriter
from testing.interruptions import Killed

ROWS, COLUMNS = 400, 12


@pytest.fixture
def small(monkeypatch):
    """A few parts."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 4000)
    monkeypatch.setattr(row_parts, "PART_BYTES", 5000)
    monkeypatch.setattr(Budget, "retained", 0)


def rows(path, seed=0):
    """Write rows as LIBSVM text."""
    random = np.random.default_rng(seed)
    values = random.integers(1, 1000, (ROWS, COLUMNS)).tolist()
    labels = random.integers(0, 2, ROWS).tolist()
    lines = (
        f"{label} " + " ".join(f"{j + 1}:{x}" for j, x in enumerate(row))
        for label, row in zip(labels, values, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def plan_of(source, dataset):
    return IngestPlan(sources=(str(source),), dataset=str(dataset), chunk_bytes=4096)


def killed_after_mapping(plan, monkeypatch, moment="_write", of=phases):
    """Leave what an ingest leaves that dies when all rows are partitioned; return that folder's files."""

    def die(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(of, moment, die)
        with pytest.raises(Killed):
            ingest(plan)
    return work_dir_files(plan)


def work_dir_files(plan):
    found = Path(plan.dataset, ".ingest").rglob("*")
    return sorted(path for path in found if path.is_file() and path.name != "lock")


def one_bit(content, random):
    damaged = bytearray(content)
    damaged[random.integers(len(damaged))] ^= 1 << random.integers(8)
    return bytes(damaged)


def last_page_zero(content, _random):
    size = min(4096, len(content))
    return content[:-size] + bytes(size)


def cut_short(content, random):
    return content[: random.integers(len(content))]


@pytest.mark.parametrize("damage", [one_bit, last_page_zero, cut_short])
def test_damage_between_mapping_and_writing_is_named_and_healed(
    tmp_path, small, monkeypatch, damage
):
    source = rows(tmp_path / "rows.svm")
    quiet = ingest(plan_of(source, tmp_path / "quiet"))
    plan = plan_of(source, tmp_path / "set")
    files = killed_after_mapping(plan, monkeypatch)
    assert sum(path.name.startswith("part-") for path in files) >= 4
    random = np.random.default_rng(1)
    for path in files:
        path.write_bytes(damage(path.read_bytes(), random))
        result = ingest(plan)
        assert result.fingerprint == quiet.fingerprint, path
        assert str(path) in result.partitioned_again
        assert [*Dataset.open(plan.dataset).verify()] == []
        killed_after_mapping(plan.model_copy(update={"overwrite": True}), monkeypatch)


def another_scaling(state):
    state["scaler"]["kind"] = "../outside"


def no_buckets_of_test_rows(state):
    state["parts"]["rows"] = state["parts"]["rows"][:256]


@pytest.mark.parametrize("lie", [another_scaling, no_buckets_of_test_rows])
def test_a_record_that_lies_is_named_and_all_is_read_anew(tmp_path, small, monkeypatch, lie):
    source = rows(tmp_path / "rows.svm")
    how = {"scale": "maxabs", "test_fraction": 0.2}
    quiet = ingest(plan_of(source, tmp_path / "quiet").model_copy(update=how))
    plan = plan_of(source, tmp_path / "set").model_copy(update=how)
    files = killed_after_mapping(plan, monkeypatch)
    (record,) = [path for path in files if path.name == "mapped.json"]
    document = unseal(record.read_bytes())
    del document["fingerprint"]
    lie(document["mapped"])
    record.write_bytes(seal(document))
    result = ingest(plan)
    assert result.fingerprint == quiet.fingerprint
    assert str(record) in result.partitioned_again


def test_exchanged_and_older_parts_are_read_anew(tmp_path, small, monkeypatch):
    source = rows(tmp_path / "rows.svm")
    quiet = ingest(plan_of(source, tmp_path / "quiet"))
    older = killed_after_mapping(
        plan_of(rows(tmp_path / "other.svm", 1), tmp_path / "older"), monkeypatch
    )
    plan = plan_of(source, tmp_path / "set")
    files = killed_after_mapping(plan, monkeypatch)
    first, second = [path for path in files if path.name.startswith("part-")][:2]
    one, other = first.read_bytes(), second.read_bytes()
    (old,) = [path for path in older if path.name == first.name]
    for content in ({first: other, second: one}, {first: old.read_bytes()}):
        for path, damaged in content.items():
            path.write_bytes(damaged)
        result = ingest(plan)
        assert result.fingerprint == quiet.fingerprint
        assert str(first) in result.partitioned_again
        killed_after_mapping(plan.model_copy(update={"overwrite": True}), monkeypatch)


def test_a_damaged_list_of_chunks_is_done_again(tmp_path, small, monkeypatch):
    source = rows(tmp_path / "rows.svm")
    quiet = ingest(plan_of(source, tmp_path / "quiet"))
    plan = plan_of(source, tmp_path / "set")
    files = killed_after_mapping(plan, monkeypatch, "commit", DatasetWriter)
    (chunks,) = [path for path in files if path.name == "chunks-training.jsonl"]
    whole, random = chunks.read_bytes(), np.random.default_rng(2)
    for _ in range(20):
        chunks.write_bytes(one_bit(whole, random))
        killed_after_mapping(plan, monkeypatch, "commit", DatasetWriter)
    result = ingest(plan)
    assert (result.fingerprint, result.partitioned_again) == (quiet.fingerprint, None)


def test_damage_within_one_process_is_an_error_that_names_the_file(tmp_path, small, monkeypatch):
    source = rows(tmp_path / "rows.svm")
    plan = plan_of(source, tmp_path / "set")
    whole = phases._write

    def damaged(job, mapped, names):
        path = next(path for path in work_dir_files(plan) if path.name.startswith("part-"))
        path.write_bytes(one_bit(path.read_bytes(), np.random.default_rng(3)))
        return whole(job, mapped, names)

    with monkeypatch.context() as patch:
        patch.setattr(phases, "_write", damaged)
        with pytest.raises(DamagedPart, match="part-000000 is not as it was written"):
            ingest(plan)
    result = ingest(plan)
    assert "part-000000" in result.partitioned_again
    assert result.fingerprint == ingest(plan_of(source, tmp_path / "quiet")).fingerprint


@pytest.mark.parametrize("moment", ["_write", "_write_one", "_result"])
def test_rows_skipped_before_a_kill_are_told_after_it(moment, tmp_path, small, monkeypatch):
    source = rows(tmp_path / "rows.svm")
    lines = source.read_text().splitlines()
    lines[5::9] = ["1 3:x"] * len(lines[5::9])
    source.write_text("\n".join(lines))
    skipping = {"options": {"on_bad_row": "skip"}, "test_fraction": 0.2}
    plans = [
        IngestPlan.model_validate(plan_of(source, tmp_path / name).model_dump() | skipping)
        for name in ("whole", "killed")
    ]
    whole = ingest(plans[0])
    killed_after_mapping(plans[1], monkeypatch, moment)
    again, once_more = ingest(plans[1]), ingest(plans[1])
    for found in (whole, again, once_more):
        assert found.skipped == lines.count("1 3:x")
        assert found.skipped_rows == whole.skipped_rows
        assert len(found.skipped_rows) == 20
    assert again.fingerprint == whole.fingerprint


def test_work_whose_lock_was_lost_is_gone_on_with(tmp_path, small, monkeypatch):
    """A power cut may take the lock alone; what others have put there is refused by name."""
    plan = plan_of(rows(tmp_path / "rows.svm"), tmp_path / "set")
    quiet = ingest(plan.model_copy(update={"dataset": str(tmp_path / "quiet")}))
    killed_after_mapping(plan, monkeypatch)
    work = tmp_path / "set" / ".ingest"
    (work / "lock").unlink()
    (work / "notes.txt").write_text("of somebody")
    with pytest.raises(BadInput, match=r"notes\.txt, which is not ours"):
        ingest(plan)
    (work / "notes.txt").unlink()
    assert ingest(plan).fingerprint == quiet.fingerprint
