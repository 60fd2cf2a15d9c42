"""Exported models, read back by other programs: the same labels, scores and probabilities."""

import json
import runpy
import sys

import numpy as np
import pandas as pd
import pytest
from liblinear import liblinearutil
from onnxruntime import InferenceSession
from safetensors import safe_open

import fewpass
from fewpass import LinearClassifier, LinearRegressor, from_run
from fewpass.pipeline.models.serving.loaded_model import LoadedModel
from tests.conftest import PROJECT
from tests.pipeline.models.estimators.test_estimators import rows

WORDS = np.array(["no", "so", "yes"])


def fitted(loss="logistic", classes=2, labels=None, **more):
    X, y, score = rows(classes=classes)
    if loss in ("squared", "huber"):
        return X, LinearRegressor(loss=loss, **more).fit(X, score)
    y = y if labels is None else labels[y]
    return X, LinearClassifier(loss=loss, tol=1e-4, **more).fit(X, y)


MODELS = {
    "two integers": {},
    "two words": {"labels": WORDS[[0, 2]]},
    "two booleans": {"labels": np.array([False, True])},
    "two floats": {"labels": np.array([1.0, 2.0])},
    "three words": {"classes": 3, "labels": WORDS},
    "three integers": {"classes": 3},
    "a model for each of three": {"classes": 3, "multi_class": "ovr"},
    "hinge": {"loss": "hinge"},
    "squared hinge, three": {"loss": "squared_hinge", "classes": 3},
    "numbers": {"loss": "squared"},
    "scaled": {"scale": "standard"},
    "few weights": {"penalty": "l1", "lam": ".6max", "classes": 3},
    "no weights": {"penalty": "l1", "lam": "2max"},
}


@pytest.mark.parametrize("name", MODELS)
def test_onnx_predicts_the_same(name, tmp_path):
    X, model = fitted(**MODELS[name])
    model.save_model(tmp_path / "model.onnx")
    session = InferenceSession(tmp_path / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    if isinstance(model, LinearRegressor):
        np.testing.assert_allclose(found["variable"][:, 0], model.predict(X), rtol=1e-12)
        return
    np.testing.assert_allclose(found["scores"], model.decision_function(X), atol=1e-12)
    assert [str(label) for label in found["label"]] == [
        str(label if not isinstance(label, np.bool_) else int(label)) for label in model.predict(X)
    ]
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-12)


def test_shares_of_classes_that_are_all_far_from_a_row_are_equal(tmp_path):
    """Each class's own probability is 0 in float64: nothing is divided by their sum."""
    X, model = fitted(classes=3, multi_class="ovr")
    model.intercept_ = np.full(3, -1000.0)
    model.feature_names_in_ = np.array([*"abcdef"], object)
    rows, equal = pd.DataFrame(X, columns=[*"abcdef"]), np.full((len(X), 3), 1.0 / 3.0)
    np.testing.assert_allclose(model.predict_proba(rows), equal)
    model.save_model(tmp_path / "model.onnx")
    session = InferenceSession(tmp_path / "model.onnx")
    np.testing.assert_allclose(session.run(["probabilities"], {"X": X})[0], equal)
    loaded = LoadedModel(model._plain(), "run", "1")
    np.testing.assert_allclose(loaded.predict_proba(rows), equal)
    one = rows.iloc[0].to_dict()
    assert [*loaded.predict_one(one)["probabilities"].values()] == pytest.approx(equal[0])
    model.save_model(tmp_path / "model.json")
    told = score_json()(json.loads((tmp_path / "model.json").read_text()), one)
    assert told["probabilities"] == pytest.approx(equal[0])


def test_counts_beyond_all_numbers_are_clipped_by_every_way(tmp_path):
    X, _, score = rows(classes=2)
    counts = np.random.default_rng(0).poisson(np.exp(score / 4))
    model = LinearRegressor(loss="poisson").fit(pd.DataFrame(X, columns=[*"abcdef"]), counts)
    far = dict(zip("abcdef", (1e6 * model.coef_).tolist(), strict=True))
    expected = pytest.approx(counts.max())
    assert model.predict(pd.DataFrame([far]))[0] == expected
    assert LoadedModel(model._plain(), "run", "1").predict_one(far)["prediction"] == expected
    model.save_model(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert score_json()(document, far)["prediction"] == expected


def score_json():
    return runpy.run_path(str(PROJECT / "examples/score_json.py"), run_name="score")["predict"]


def test_onnx_has_no_weights_that_are_0(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 400))
    model = LinearClassifier(penalty="l1", lam=".5max").fit(X, X[:, 7] + X[:, 300] > 0.0)
    assert 0 < np.count_nonzero(model.coef_) < 20
    model.save_model(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size < 400 * 8
    session = InferenceSession(tmp_path / "model.onnx")
    (scores,) = session.run(["scores"], {"X": X})
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_scikit_learns_own_predicts_the_same_and_is_trusted_by_skops(name, tmp_path):
    import skops.io  # a second that every process of the suite would take to find its tests

    X, model = fitted(**MODELS[name])
    model.save_model(tmp_path / "model.skops")
    assert skops.io.get_untrusted_types(file=tmp_path / "model.skops") == []
    for other in (model.to_sklearn(), skops.io.load(tmp_path / "model.skops")):
        assert (other.predict(X) == model.predict(X)).all()
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-12)


def test_skl2onnx_converts_it_at_the_end_of_a_pipeline(tmp_path):
    from skl2onnx import to_onnx
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, _ = rows()
    chain = make_pipeline(StandardScaler(), LinearClassifier()).fit(X, y)
    plain = make_pipeline(chain[0], chain[-1].to_sklearn())
    made = to_onnx(plain, X[:1], options={"zipmap": False})
    labels, p = InferenceSession(made.SerializeToString()).run(None, {"X": X})
    assert (labels == chain.predict(X)).all()
    np.testing.assert_allclose(p, chain.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "classes"), [("logistic", 2), ("logistic", 3), ("hinge", 2), ("squared_hinge", 3)]
)
def test_liblinear_reads_what_is_written_for_it(loss, classes, tmp_path):
    X, model = fitted(loss, classes, multi_class="ovr")
    model.save_model(tmp_path / "model.liblinear")
    read = liblinearutil.load_model(str(tmp_path / "model.liblinear"))
    labels, _, values = liblinearutil.predict(
        [], X, read, "-q -b 1" if loss == "logistic" else "-q"
    )
    assert (np.array(labels) == model.predict(X)).all()
    if loss == "logistic":
        p = np.array(values)[:, np.argsort(read.get_labels())]
        np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "solver"), [("logistic", "L1R_LR"), ("squared_hinge", "L1R_L2LOSS_SVC")]
)
def test_liblinear_is_told_of_an_l1_penalty(loss, solver, tmp_path):
    X, model = fitted(loss, 2, penalty="l1", lam=0.05)
    model.save_model(tmp_path / "model.liblinear")
    assert (tmp_path / "model.liblinear").read_text().startswith(f"solver_type {solver}\n")
    read = liblinearutil.load_model(str(tmp_path / "model.liblinear"))
    assert (np.array(liblinearutil.predict([], X, read, "-q")[0]) == model.predict(X)).all()


def test_safetensors_keep_every_bit_and_say_what_they_are(tmp_path):
    _, model = fitted(classes=3, labels=WORDS)
    model.save_model(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert file.get_tensor("coef").tobytes() == model.coef_.tobytes()
        assert file.get_tensor("intercept").tobytes() == model.intercept_.tobytes()
        told = json.loads(file.metadata()["fewpass"])
    assert (told["classes"], told["loss"], told["lam"]) == (list(WORDS), "softmax", model.lam_)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("scale", ["none", "standard", "maxabs"])
@pytest.mark.parametrize("label", ["words", "integers", "number"])
def test_a_run_becomes_an_estimator_and_a_file(tmp_path, scale, label, as_json):
    X, y, score = rows(classes=3 if label == "words" else 2)
    column = {"words": WORDS[y], "integers": y, "number": score.round(3)}[label]
    table = np.column_stack([X.round(3).astype(str), column.astype(str)])
    lines = [",".join([*"abcdef", "y"]), *(",".join(row) for row in table)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    fewpass.ingest(tmp_path / "rows.csv", tmp_path / "set", label="y", scale=scale, memory="130MB")
    fewpass.train(tmp_path / "set", tmp_path / "run", lam="1/n", tol=1e-6, memory="130MB")
    model = from_run(tmp_path / "run")
    assert list(model.feature_names_in_) == list("abcdef")
    fewpass.predict(tmp_path / "run", tmp_path / "rows.csv", tmp_path / "out.csv")
    out = np.genfromtxt(
        tmp_path / "out.csv", delimiter=",", names=True, dtype=None, encoding="utf8"
    )
    found = model.predict(X.round(3))
    if label == "number":
        np.testing.assert_allclose(out["predicted"], found, rtol=1e-4, atol=1e-5)
    else:
        assert [str(v).strip('"') for v in out["predicted"]] == [str(v) for v in found]
    told = as_json("export", tmp_path / "run", tmp_path / "model.onnx")
    assert told["bytes"] == (tmp_path / "model.onnx").stat().st_size
    session = InferenceSession(tmp_path / "model.onnx")
    first = session.run(None, {"X": X.round(3)})[0]
    if label == "number":
        np.testing.assert_allclose(first[:, 0], found, rtol=1e-9)
    else:
        assert list(first) == list(found)


def test_an_estimator_of_a_run_has_the_parameters_of_its_loss(tmp_path):
    X, _, score = rows(classes=2)
    lines = [
        "a,b,y",
        *(f"{a:.3f},{b:.3f},{y:.3f}" for a, b, y in zip(*X.T[:2], score, strict=True)),
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    fewpass.ingest(tmp_path / "rows.csv", tmp_path / "set", label="y", encode="none")
    how = {"loss": "quantile", "quantile": 0.9}
    fewpass.train(tmp_path / "set", tmp_path / "run", passes=2, **how)
    assert how.items() <= from_run(tmp_path / "run").get_params().items()


def test_what_does_not_fit_a_format_is_refused_and_nothing_is_left(tmp_path, fewpass, monkeypatch):
    _, model = fitted(labels=WORDS[[0, 2]])
    with pytest.raises(ValueError, match="LIBLINEAR's labels are integers"):
        model.save_model(tmp_path / "model.liblinear")
    with pytest.raises(ValueError, match=r"no format has the suffix '.pkl'. Choose one of .onnx"):
        model.save_model(tmp_path / "model.pkl")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"onnx is not installed. Install fewpass\[export\]"):
        model.save_model(tmp_path / "model.onnx")
    status, _, err = fewpass("export", tmp_path / "nothing", tmp_path / "model.onnx")
    assert status == 2
    assert "There is nothing at" in err
    assert "a run was expected" in err
