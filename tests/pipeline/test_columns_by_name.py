"""Columns are found by their names: whatever their order, each of them, and no other in silence."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.scoring.prediction import predict
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.column_schema import Schema, SourceColumn
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from testing.datasets import make
from testing.interruptions import trained_model

ROWS, NAMES = 300, ("a", "b", "c", "d")
SIGNS = np.where(np.arange(ROWS) % 2, 1, -1)
IGNORE, BY_POSITION = {"unknown_features": "ignore"}, {"by_position": True}


def columns_of(seed=0):
    """A label that follows four columns of very different sizes, a weight, and a row's number."""
    random = np.random.default_rng(seed)
    X = np.round(random.standard_normal((ROWS, 4)) * [1, 50, 0.1, 3], 3)
    y = np.where(X @ [1, 0.05, 5, 0.2] > 0, "spam", "ham")
    found = {name: X[:, j] for j, name in enumerate(NAMES)}
    return found | {"label": y, "w": random.integers(1, 4, ROWS), "id": np.arange(ROWS)}


def write(path, columns, header=True):
    """Write columns, in their order, in the format that the path's ending says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True)
        lines = [",".join(columns)] * header + [",".join(map(str, row)) for row in rows]
        path.write_text("\n".join(lines) + "\n")
    return str(path)


def ordered(columns, *names):
    return {name: columns[name] for name in names}


def ingested(source, place, options=None, **settings):
    settings = {"scale": "none"} | settings
    plan = IngestPlan(sources=(source,), dataset=str(place), options=options or {}, **settings)
    return ingest(plan)


def trained(place, run, **settings):
    plan = TrainingPlan(dataset=str(place), memory="128MB", loss="logistic", **settings)
    return trained_model(plan, run)[0]


@pytest.fixture(scope="module")
def spam(tmp_path_factory):
    """A model of four columns out of seven, its file and its scores."""
    folder = tmp_path_factory.mktemp("spam")
    source = write(folder / "mail.csv", columns_of())
    ingested(source, folder / "set", {"weight": "w", "drop": ("id",)})
    model = trained(folder / "set", folder / "run")
    return model, source, scores(model, source, folder / "scores.npy")


def scores(model, source, out, **options):
    predict(
        model,
        [str(source)],
        str(out),
        PredictionPlan(options=SourceOptions(**options), overwrite=True),
    )
    return np.load(out)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "names",
    [
        ("a", "b", "c", "d", "label", "w", "id"),
        ("id", "d", "w", "b", "label", "a", "c"),
        ("d", "c", "b", "a"),
    ],
)
def test_files_are_predicted_by_name_whatever_their_order(spam, tmp_path, names, ending):
    model, _, expected = spam
    source = write(tmp_path / f"new.{ending}", ordered(columns_of(), *names))
    assert np.array_equal(scores(model, source, tmp_path / "out.npy"), expected)


def test_a_missing_or_renamed_column_is_refused_by_name(spam, tmp_path):
    model, _, _ = spam
    columns = columns_of()
    renamed = {("B" if name == "b" else name): column for name, column in columns.items()}
    for ending in ("csv", "parquet"):
        for other in (ordered(columns, "d", "c", "a", "label"), renamed):
            source = write(tmp_path / f"new.{ending}", other)
            for options in ({}, IGNORE):
                with pytest.raises(BadInput, match=r"lacks 1 of the 4 columns of the model: 'b'"):
                    scores(model, source, tmp_path / "out.npy", **options)
    assert not (tmp_path / "out.npy").exists()


def test_other_columns_are_refused_by_name_unless_they_may_be_ignored(spam, tmp_path):
    model, _, expected = spam
    columns = columns_of()
    more = {"new": columns["a"]} | columns | {"text": columns["label"]}
    for ending in ("csv", "parquet"):
        source = write(tmp_path / f"new.{ending}", more)
        with pytest.raises(BadInput, match=r"the model does not know: 'new', 'text'\. .*`unknown_"):
            scores(model, source, tmp_path / "out.npy", drop=())
        out = str(tmp_path / "out.npy")
        result = predict(
            model, [source], out, PredictionPlan(options=SourceOptions(**IGNORE), overwrite=True)
        )
        assert result.left_out == ("new", "text")
        assert np.array_equal(np.load(out), expected)
        assert np.array_equal(
            scores(model, source, out, drop=("new", "text")), expected
        )  # named by the user: not in the way


def test_names_may_be_passed_over_only_where_the_user_says_so(spam, tmp_path):
    model, _, expected = spam
    plain = ordered(columns_of(), *NAMES)
    headless = write(tmp_path / "plain.csv", plain, header=False)
    np.save(tmp_path / "plain.npy", np.column_stack([*plain.values()]))
    np.savez(tmp_path / "plain.npz", X=np.column_stack([*plain.values()]))
    sparse = tmp_path / "plain.svm"
    rows = zip(*(column.tolist() for column in plain.values()), strict=True)
    lines = (" ".join(f"{j + 1}:{x}" for j, x in enumerate(row)) for row in rows)
    sparse.write_text("".join(f"0 {line}\n" for line in lines))
    for source in (headless, tmp_path / "plain.npy", tmp_path / "plain.npz", sparse):
        with pytest.raises(BadInput, match=r"have no names, but those of the model do: 'a', 'b'"):
            scores(model, source, tmp_path / "out.npy")
        found = scores(model, source, tmp_path / "out.npy", **BY_POSITION)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    other = dict(zip(("p", "q", "r", "s"), plain.values(), strict=True))
    renamed = write(tmp_path / "renamed.csv", other)
    assert np.array_equal(scores(model, renamed, tmp_path / "out.npy", **BY_POSITION), expected)
    narrow = write(tmp_path / "narrow.csv", ordered(columns_of(), "a", "b"), header=False)
    with pytest.raises(BadInput, match="2 feature columns, but 4 were asked for"):
        scores(model, narrow, tmp_path / "out.npy", **BY_POSITION)


def test_columns_without_names_have_the_roles_that_they_had_at_ingest(tmp_path):
    columns = ordered(columns_of(), "label", "a", "id", "b", "c", "d")
    source = write(tmp_path / "rows.csv", columns, header=False)
    ingested(source, tmp_path / "set", {"label": 0, "drop": (2,)})
    model = trained(tmp_path / "set", tmp_path / "run")
    expected = scores(model, source, tmp_path / "out.npy", label=0, drop=(2,))
    assert np.array_equal(scores(model, source, tmp_path / "out.npy"), expected)
    bare = write(tmp_path / "bare.csv", ordered(columns_of(), *NAMES), header=False)
    assert np.array_equal(scores(model, bare, tmp_path / "out.npy"), expected)


def test_like_puts_columns_in_the_order_that_is_known(spam, tmp_path):
    model, source, _ = spam
    like = model.record.plan.dataset
    names = ("id", "d", "new", "w", "b", "label", "a", "c")
    columns = columns_of()
    other = write(tmp_path / "new.csv", ordered(columns | {"new": columns["a"]}, *names))
    with pytest.raises(BadInput, match=r"columns that the data set .* does not know: 'new'"):
        ingested(other, tmp_path / "set", like=like)
    result = ingested(other, tmp_path / "set", IGNORE, like=like, shuffle=False)
    assert result.left_out == ("new",)
    ingested(source, tmp_path / "same", like=like, shuffle=False)
    tables = [Dataset.open(str(tmp_path / name)).read_chunk(0) for name in ("set", "same")]
    for found, expected in zip(*tables, strict=True):
        assert np.array_equal(found, expected)  # values, targets, and the weights of `w`
    made = Dataset.open(str(tmp_path / "set")).schema
    assert made == Dataset.open(like).schema
    evaluate(model, Dataset.open(str(tmp_path / "set")), InProcess())


def test_data_sets_are_evaluated_predicted_and_started_from_by_name(spam, tmp_path):
    model, _, _ = spam
    settings = {"weight": "w", "drop": ("id",)}
    names = ("id", "d", "w", "b", "label", "a", "c")
    columns = columns_of()
    other = write(tmp_path / "other.csv", ordered(columns, *names))
    more = write(tmp_path / "more.csv", {"new": columns["a"]} | columns)
    fewer = write(tmp_path / "fewer.csv", ordered(columns, "a", "b", "c", "label", "w", "id"))
    for place, rows in (("other", other), ("more", more), ("fewer", fewer)):
        ingested(rows, tmp_path / place, settings)
    same, reordered, wider, narrower = (
        Dataset.open(str(url))
        for url in (model.record.plan.dataset, *(tmp_path / p for p in ("other", "more", "fewer")))
    )
    expected = evaluate(model, same, InProcess())
    found = evaluate(model, reordered, InProcess())
    assert found.error == expected.error
    assert found.loss == pytest.approx(expected.loss, rel=1e-9)
    with pytest.raises(BadInput, match="lacks 1 of the 4 columns of the model: 'd'"):
        evaluate(model, narrower, InProcess())
    with pytest.raises(BadInput, match="the model does not know: 'new'"):
        evaluate(model, wider, InProcess())
    ignoring = evaluate(model, wider, InProcess(), rules=Matching(**IGNORE))
    assert (ignoring.error, ignoring.left_out) == (expected.error, ("new",))
    inner = [
        np.sort(scores(model, each.folder.url, tmp_path / "out.npy", **IGNORE))
        for each in (same, reordered, wider)
    ]
    for each in inner[1:]:
        np.testing.assert_allclose(each, inner[0], rtol=1e-6, atol=1e-9)
    evaluated = trained(
        same.folder.url, tmp_path / "evaluated", lam="1e-2,1e-3", held_out=reordered.folder.url
    )
    assert evaluated.record.columns == same.schema
    warm = trained(
        reordered.folder.url, tmp_path / "warm", start_from=model.run.url, solver={"kind": "gd"}
    )
    assert evaluate(warm, same, InProcess()).loss <= expected.loss * (1 + 1e-6)
    with pytest.raises(BadInput, match="lacks 1 of the 4"):
        trained(narrower.folder.url, tmp_path / "cold", start_from=model.run.url)


def test_rows_scaled_to_unit_length_do_not_forgive_other_columns(tmp_path):
    columns = ordered(columns_of(), *NAMES, "label")
    ingested(write(tmp_path / "rows.csv", columns), tmp_path / "set", scale="unit-rows")
    model = trained(tmp_path / "set", tmp_path / "run")
    more = write(tmp_path / "more.csv", {"new": columns["a"]} | columns)
    ingested(more, tmp_path / "more", scale="unit-rows")
    with pytest.raises(BadInput, match="unit length with columns that the model does not know"):
        dataset = Dataset.open(str(tmp_path / "more"))
        evaluate(model, dataset, InProcess(), rules=Matching(**IGNORE))


def test_nothing_known_is_taken_by_position_as_ever(spam, tmp_path):
    known, _, _ = spam
    dataset = make(tmp_path / "set", d=4)
    assert (dataset.schema, dataset.manifest.version) == (None, 1)
    model = trained(dataset.folder.url, tmp_path / "run")
    labelled = write(tmp_path / "labelled.csv", ordered(columns_of(), *NAMES) | {"w": SIGNS})
    ingested(labelled, tmp_path / "like", {"label": "w"}, like=dataset.folder.url)
    assert Dataset.open(str(tmp_path / "like")).schema is None  # as little as is known there
    bare = write(tmp_path / "bare.csv", ordered(columns_of(), *NAMES))
    assert scores(model, bare, tmp_path / "out.npy").size == ROWS
    plain = write(tmp_path / "plain.csv", ordered(columns_of(), *NAMES, "label"), header=False)
    ingested(plain, tmp_path / "plain", {"label": -1})
    nameless = Dataset.open(str(tmp_path / "plain"))
    with pytest.raises(BadInput, match="have no names, but those of the model do"):
        evaluate(known, nameless, InProcess())
    assert evaluate(known, nameless, InProcess(), rules=Matching(**BY_POSITION)).rows == ROWS
    document = json.loads(known.record.model_dump_json())
    document["columns"]["dropped"] = []
    with pytest.raises(ValueError, match="not as many as its features"):
        RunRecord.model_validate(document)
    del document["columns"]
    assert RunRecord.model_validate(document).columns is None


# -- what is kept ---------------------------------------------------------------------------------


def test_names_types_and_roles_are_kept(spam, tmp_path):
    model, _, _ = spam
    schema = Dataset.open(model.record.plan.dataset).schema
    kinds = [*["number"] * 4, "text", "number", "any"]
    roles = [*["feature"] * 4, "label", "weight", "dropped"]
    assert [*schema.columns] == [
        SourceColumn(*each) for each in zip((*NAMES, "label", "w", "id"), kinds, roles, strict=True)
    ]
    assert model.record.columns == schema
    source = write(tmp_path / "rows.parquet", columns_of())
    ingested(source, tmp_path / "set", {"drop": ("w", "id")})
    found = Dataset.open(str(tmp_path / "set")).schema
    assert found.types == ("double", "double", "double", "double", "string", "int64", "int64")
    np.save(tmp_path / "rows.npy", np.eye(4, dtype=np.float32))
    ingested(str(tmp_path / "rows.npy"), tmp_path / "npy")
    found = Dataset.open(str(tmp_path / "npy")).schema
    assert found == Schema(names=None, types=("float32",) * 4, label=3)


def test_a_damaged_schema_is_named(tmp_path):
    source = write(tmp_path / "rows.csv", columns_of())
    ingested(source, tmp_path / "set")
    path = tmp_path / "set" / "schema.json"
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        dataset = Dataset.open(str(tmp_path / "set"))
        with pytest.raises(Damaged, match=r"schema\.json is damaged"):
            _ = dataset.schema
        assert any("schema.json" in problem for problem in dataset.verify())
    path.unlink()
    with pytest.raises(Damaged, match=r"schema\.json is missing"):
        _ = Dataset.open(str(tmp_path / "set")).schema


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"names": ("a", "b")}, "2 names and 3 types"),
        ({"names": ("a", "a", "y")}, "same name"),
        ({"label": 3}, "roles that they cannot have"),
        ({"label": -1}, "greater than or equal to 0"),
        ({"weight": 2}, "roles that they cannot have"),
        ({"dropped": (0, 0)}, "roles that they cannot have"),
        ({"dropped": (0, 1)}, "roles that they cannot have"),
    ],
)
def test_a_schema_that_does_not_add_up_is_refused(change, error):
    whole = {"names": ("a", "b", "y"), "types": ("number",) * 3, "label": 2}
    assert Schema(**whole).features == (0, 1)
    with pytest.raises(ValueError, match=error):
        Schema(**whole | change)


def test_many_names_stay_out_of_the_manifest(tmp_path):
    d = 20_000
    names = ",".join(f"feature number {j}" for j in range(d))
    rows = [f"{k % 2}," + ",".join([str(k)] * d) for k in range(4)]
    (tmp_path / "wide.csv").write_text("\n".join([f"y,{names}", *rows]) + "\n")
    ingested(str(tmp_path / "wide.csv"), tmp_path / "set")
    assert (tmp_path / "set" / "manifest.json").stat().st_size < 4096
    schema = Dataset.open(str(tmp_path / "set")).schema
    assert schema.feature_names == tuple(f"feature number {j}" for j in range(d))


def test_double_names_are_refused_and_none_is_printed_raw(tmp_path, capsys):
    double = tmp_path / "double.csv"
    double.write_text("y,a,\x1b[31mred,\x1b[31mred\n1,2,3,4\n0,1,2,3\n")
    with pytest.raises(BadInput, match=r"2 columns are named '\\x1b\[31mred'") as caught:
        ingested(str(double), tmp_path / "set")
    assert "\x1b" not in str(caught.value)
    double.write_text("y,a,\x1b[31mred\n1,2,3\n0,1,2\n1,3,3\n")
    ingested(str(double), tmp_path / "set")
    assert Dataset.open(str(tmp_path / "set")).schema.names == ("y", "a", "\x1b[31mred")
    trained(tmp_path / "set", tmp_path / "run")
    other = tmp_path / "other.csv"
    other.write_text("a,\x1b[31mred,\x1b[32mgreen\n2,3,4\n")
    words = ["predict", str(tmp_path / "run"), str(other), str(tmp_path / "out.csv")]
    assert main(words) == 2
    assert main([*words, "--unknown-features", "ignore"]) == 0
    said = capsys.readouterr()
    assert "\x1b[32m" not in said.out + said.err
    assert said.err.count(r"'\x1b[32mgreen'") == 2


def test_how_columns_are_matched_is_in_the_digest_of_a_plan():
    plan = IngestPlan(sources=("a.csv",), dataset="set", options={"label": "y"}, scale="none")
    matched = plan.model_copy(update={"options": SourceOptions(label="y", **BY_POSITION)})
    assert matched.digest([["a.csv", 10, 5]], "") != plan.digest([["a.csv", 10, 5]], "")


def test_values_beyond_the_features_are_refused_or_counted(fewpass, tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        f"{k % 2} " + " ".join(f"{j}:{x:.3f}" for j, x in enumerate(rng.random(4), 1))
        for k in range(60)
    ]
    (tmp_path / "rows.svm").write_text("\n".join(rows) + "\n")
    wide = [row + f" {7 + k % 3}:2" * (k % 4 == 0) for k, row in enumerate(rows)]
    (tmp_path / "wide.svm").write_text("\n".join(wide) + "\n")
    run, out = str(tmp_path / "run"), str(tmp_path / "out.csv")
    assert fewpass("ingest", tmp_path / "rows.svm", tmp_path / "set")[0] == 0
    assert fewpass("train", tmp_path / "set", run, "--scheduler", "none")[0] == 0
    code, _, told = fewpass("predict", run, tmp_path / "wide.svm", out)
    assert code == 2 and "line 1" in told and "--unknown-features ignore" in told
    ignore = ("--unknown-features", "ignore", "--json")
    code, told, _ = fewpass("predict", run, tmp_path / "wide.svm", out, *ignore)
    assert code == 0 and json.loads(told)["beyond"] == 15
    assert fewpass("predict", run, tmp_path / "rows.svm", tmp_path / "narrow.csv")[0] == 0
    assert (tmp_path / "narrow.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()
    like = ("--like", tmp_path / "set", *ignore)
    code, told, _ = fewpass("ingest", tmp_path / "wide.svm", tmp_path / "later", *like)
    assert code == 0 and json.loads(told)["beyond"] == 15
