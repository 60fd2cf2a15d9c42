"""Predictions next to columns of the input, of files of a folder, and by a threshold."""

import fcntl
import itertools
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring import predicted_parts
from fewpass.pipeline.scoring.folder_record import KEY
from testing.interruptions import Killed


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"size": rng.normal(size=n), "city": rng.choice(["Rome", "Oslo"], n)})
    score = table["size"] + (table["city"] == "Oslo") + 0.3 * rng.standard_normal(n)
    table["bought"] = np.where(score > 0.5, "yes", "no")
    return table


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A run with its data, and a folder of three files to predict, with ids."""
    folder = tmp_path_factory.mktemp("shop")
    rows_of(800, 0).to_parquet(folder / "train.parquet")
    fewpass.ingest(folder / "train.parquet", folder / "data", label="bought")
    fewpass.train(folder / "data", folder / "run", loss="logistic", verbose=0)
    for k, day in enumerate(("05", "06", "07")):
        table = pa.Table.from_pandas(rows_of(50 + k, k + 1), preserve_index=False)
        ids = pa.array(range(1000 * k, 1000 * k + len(table)), pa.int32())
        at = pa.array([1_700_000_000 + i for i in range(len(table))], pa.timestamp("s"))
        price = pa.array([None if i % 7 == 0 else f"{i}.50" for i in range(len(table))])
        table = table.append_column("id", ids).append_column("at", at)
        table = table.append_column("price", price.cast(pa.decimal128(9, 2)))
        (folder / f"new/day={day}").mkdir(parents=True)
        pyarrow.parquet.write_table(table, folder / f"new/day={day}/part.parquet")
    return folder


def predicted(shop, out, source="new/day=06/part.parquet", **more):
    settings = {"unknown_features": "ignore"} | more
    return fewpass.predict(shop / "run", shop / source, f"{out}", **settings)


def test_columns_are_passed_through_with_their_types(shop, tmp_path):
    kept = ["id", "at", "price", "bought", "city"]
    result = predicted(shop, tmp_path / "p.parquet", keep=kept, probability=True)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    source = pyarrow.parquet.read_table(shop / "new/day=06/part.parquet")
    assert result.columns == tuple(table.column_names)
    assert result.columns[:7] == (*kept, "predicted", "score")
    for name in ("id", "at", "price"):
        assert table[name].equals(source[name])
    for name in ("bought", "city"):
        assert table[name].to_pylist() == source[name].to_pylist()
    labels = np.where(np.array(table["score"]) > 0.0, "yes", "no")
    assert np.array_equal(table["predicted"], labels) and set(labels) == {"no", "yes"}
    predicted(shop, tmp_path / "p.csv", keep=kept)
    text = pd.read_csv(tmp_path / "p.csv")
    assert list(text["id"]) == table["id"].to_pylist()
    assert np.array_equal(text["score"], np.array(table["score"]))


def test_plain_numbers_of_text_are_passed_through_bad_rows_left_out(shop, tmp_path):
    rng = np.random.default_rng(5)
    lines = [f"{k},{x:.3f},{int(x > 0)}" for k, x in enumerate(rng.standard_normal(300))]
    (tmp_path / "t.csv").write_text("\n".join(["code,x,y", *lines]))
    fewpass.ingest(tmp_path / "t.csv", tmp_path / "d", label="y", drop=["code"], encode="none")
    fewpass.train(tmp_path / "d", tmp_path / "r", verbose=0)
    lines[3] = "3,oops,1"
    (tmp_path / "u.csv").write_text("\n".join(["code,x,y", *lines]))
    out = tmp_path / "p.csv"
    result = fewpass.predict(tmp_path / "r", tmp_path / "u.csv", out, keep=["code"],
                             on_bad_row="skip")  # fmt: skip
    table = pd.read_csv(out)
    assert (result.rows, result.skipped) == (299, 1)
    assert "u.csv, line 5: " in result.skipped_rows[0] and "oops" in result.skipped_rows[0]
    into = fewpass.predict(tmp_path / "r", tmp_path / "u.csv", f"{tmp_path}/o/", on_bad_row="skip")
    assert (into.skipped, into.skipped_rows) == (1, result.skipped_rows)
    figures = fewpass.evaluate(tmp_path / "r", tmp_path / "u.csv", label="y", on_bad_row="skip")
    assert (figures.rows, figures.skipped) == (299, 1)
    assert list(table["code"]) == [k for k in range(300) if k != 3]
    assert list(table.columns) == ["code", "predicted", "score"]
    assert set(table["predicted"]) == {0, 1}


def test_a_threshold_is_one_of_the_probability(shop, tmp_path):
    for threshold in (0.2, 0.9):
        predicted(shop, tmp_path / "p.csv", probability=True, threshold=threshold)
        table = pd.read_csv(tmp_path / "p.csv")
        assert ((table["predicted"] == "yes") == (table["probability"] >= threshold)).all()
        predicted(shop, tmp_path / "q.csv", threshold=threshold)
        assert list(pd.read_csv(tmp_path / "q.csv")["predicted"]) == list(table["predicted"])
    with pytest.raises(BadInput, match=r"threshold is 1\.5"):
        predicted(shop, tmp_path / "r.csv", threshold=1.5)


def test_what_cannot_be_passed_through_is_refused_by_name(shop, tmp_path):
    with pytest.raises(
        BadInput, match=r"no column .name., which `keep` or `by` names\. The columns are"
    ):
        predicted(shop, tmp_path / "p.csv", keep=["name"])
    with pytest.raises(BadInput, match="is a data set, which has features and no columns"):
        fewpass.predict(shop / "run", shop / "data", tmp_path / "p.csv", keep=["id"])
    with pytest.raises(BadInput, match="'id' is named twice"):
        predicted(shop, tmp_path / "p.csv", keep=["id", "id"])


def test_a_folder_killed_anywhere_and_begun_again_is_the_same(shop, tmp_path, monkeypatch):
    """Before and after each file, and between a file and the record of it."""
    quiet = tmp_path / "quiet"
    result = predicted(shop, f"{quiet}/", "new", keep=["id"])
    assert (result.rows, result.files, result.done_before) == (153, 3, 0)
    files = sorted(p.relative_to(quiet) for p in quiet.rglob("*.parquet"))
    assert [str(p) for p in files] == [f"day=0{k}/part.parquet" for k in (5, 6, 7)]
    real, calls = predicted_parts.written_rows, []

    for stop, late in itertools.product(range(3), (False, True)):
        out = tmp_path / f"{stop}{late}"
        calls.clear()

        def dying(*given):
            calls.append(given)
            if len(calls) == stop + 1 and not late:
                raise Killed
            made = real(*given)
            if len(calls) == stop + 1:
                raise Killed
            return made

        monkeypatch.setattr(predicted_parts, "written_rows", dying)
        with pytest.raises(Killed):
            predicted(shop, f"{out}/", "new", keep=["id"])
        monkeypatch.setattr(predicted_parts, "written_rows", real)
        again = predicted(shop, f"{out}/", "new", keep=["id"])
        assert (again.rows, again.done_before) == (153, stop)
        for file in files:
            assert (out / file).read_bytes() == (quiet / file).read_bytes()
    # What a process that is gone left half written, of a file that is done, and of one at work.
    half, other = (
        out / f"day=05/.{name}.0123456789ab.partial" for name in ("part.parquet", "x.csv")
    )
    half.write_bytes(b"PAR1")
    other.write_bytes(b"id")
    locked = out / "day=06/.part.parquet.0123456789ab.partial"
    with locked.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"PAR1")
        file.flush()
        assert predicted(shop, f"{out}/", "new", keep=["id"]).done_before == 3
        assert not half.exists() and other.exists() and locked.exists()
    predicted(shop, f"{out}/", "new", keep=["id"])
    assert not locked.exists()


def test_a_folder_is_of_one_model_one_question_and_files_as_they_are(shop, tmp_path):
    shutil.copytree(shop / "new", tmp_path / "new")
    out = f"{tmp_path / 'out'}/"

    def again(**more):
        return fewpass.predict(
            shop / "run", tmp_path / "new", out, unknown_features="ignore", **more
        )

    assert again().done_before == 0
    assert again().done_before == 3
    with pytest.raises(BadInput, match="of another model, or with other settings"):
        again(keep=["id"])
    assert again(keep=["id"], overwrite=True).done_before == 0
    (tmp_path / "out/day=05/part.parquet").unlink()
    rows_of(9, 9).to_parquet(tmp_path / "new/day=06/part.parquet")
    with pytest.raises(BadInput, match="no column 'id'"):
        again(keep=["id"])
    rows_of(9, 9).assign(id=1).to_parquet(tmp_path / "new/day=06/part.parquet")
    result = again(keep=["id"])
    assert (result.done_before, result.rows) == (1 + 1, 50 + 9 + 52)
    for source in ("new", "new/**/*.parquet"):
        with pytest.raises(BadInput, match="is inside the input"):
            predicted(shop, f"{shop}/new/out/", source)
    with pytest.raises(BadInput, match="Standard input is one stream"):
        fewpass.predict(shop / "run", "-", f"{tmp_path}/out/")
    for source in ("new/day=05/part.parquet", "new/*/part.parquet"):  # a folder beside files
        beside = predicted(shop, f"{shop}/new/day=05/out/", source)
        assert beside.rows == (153 if "*" in source else 50)
        shutil.rmtree(shop / "new/day=05/out")
    raw = bytearray((tmp_path / "out" / KEY).read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "out" / KEY).write_bytes(raw)
    with pytest.raises(BadInput, match="is damaged"):
        again(keep=["id"])
