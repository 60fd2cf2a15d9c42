"""What notebooks show: a bar while a training runs, a table when it is done; scripts nothing."""

import sys
import types

import numpy as np
import pytest

from fewpass import LinearClassifier, train
from fewpass.pipeline.reporting import notebooks
from fewpass.pipeline.sizes import as_fixed
from testing.datasets import make
from testing.html_pages import Page


def test_a_result_is_a_table_with_the_loss_curve(tmp_path):
    rows = make(tmp_path / "<rows>", 600, 5).folder.url
    result = train(rows, tmp_path / "a <run>", lam="1e-2,1e-3", held_out=rows, passes=2)
    found = Page(result._repr_html_())
    assert found.images == 1
    assert f"{tmp_path}/a <run>" in found.text  # escaped, so it is text again
    assert "onepass, loss logistic" in found.text
    for one in result.candidates:
        assert f"{one['lam']:.6g}" in found.text and as_fixed(one["loss"], 6) in found.text


def test_a_run_that_is_gone_still_has_a_table(tmp_path):
    import shutil

    result = train(make(tmp_path / "rows", 300, 5).folder.url, tmp_path / "run", tol=1e-2)
    shutil.rmtree(tmp_path / "run")
    found = Page(result._repr_html_())
    assert found.images == 0
    assert "Tolerance 0.01 reached" in found.text


def test_an_estimator_is_shown_by_scikit_learn():
    html = LinearClassifier(lam=0.125)._repr_html_()
    assert "LinearClassifier" in html
    assert "0.125" in html


@pytest.fixture
def notebook(monkeypatch):
    """Stands where IPython does; keeps what is displayed."""
    shown = []

    class Handle:
        def update(self, picture):
            shown.append(("update", picture))

    def display(picture, display_id):
        assert display_id
        shown.append(("display", picture))
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.HTML, ipython.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(notebooks, "FIRST_S", 0.0)
    monkeypatch.setattr(notebooks, "NOTEBOOK_EVERY_S", 0.0)
    return shown


@pytest.fixture
def fit(rng):
    X = rng.standard_normal((300, 4))
    y = X[:, 0] + rng.standard_normal(300) > 0
    return lambda **parameters: LinearClassifier(**parameters).fit(X, y)


def test_a_notebook_shows_one_bar_that_moves(notebook, fit):
    model = fit()
    kinds = [kind for kind, _ in notebook]
    assert kinds == ["display"] + ["update"] * (len(kinds) - 1)
    assert len(kinds) > 1
    last = Page(notebook[-1][1]).text
    assert f"{model.solver_}: {model.passes_:g} of at most 1,000 passes" in last
    assert "above the optimum" in last
    fit(verbose=0)
    assert len(notebook) == len(kinds)


def test_a_script_is_quiet_unless_asked(fit, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(notebooks, "FIRST_S", 0.0)
    rows = make(tmp_path / "rows", 300, 5).folder.url
    fit()
    train(rows, tmp_path / "quiet")
    assert capsys.readouterr() == ("", "")
    fit(verbose=1)
    train(rows, tmp_path / "told", passes=1, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "onepass: 1 of at most 1 pass" in err
    assert "of at most 1,000 passes, objective" in err


def test_the_same_bits_whether_shown_or_not(fit, notebook):
    assert np.array_equal(fit(verbose=1).coef_, fit(verbose=0).coef_)
