"""The command: what it prints, refuses and interrupts; the pipeline has tests of its own."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dask
import distributed  # noqa: F401  its settings must be there before one of them is changed
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.flows import cli
from fewpass.flows.commands.contents import faults
from fewpass.flows.completion import candidates
from fewpass.flows.declared_options import arguments_of, options_of, text_of
from fewpass.flows.help_pages import spelled
from fewpass.flows.listed_commands import COMMANDS, function_of
from fewpass.flows.options import (
    IngestOptions,
    PlanSource,
    TrainingOptions,
    Where,
    called,
)
from fewpass.flows.settings import as_toml, checked, ingest_settings, training_settings
from fewpass.pipeline.clicks import write_clicks
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import OTHER_NAMES
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.registry import METHODS, method_class

TRAINED = {
    "run", "snapshot", "solver", "loss", "lam", "classes", "calibration", "stopped_early", "passes_of_model",
    "candidates", "lam_tried", "passes", "rows_seen", "objective", "penalty", "nonzeros", "proven_zeros",
    "lam_origin", "certificate", "hinge_certificate", "tol", "relative_gap", "converged", "left_passes", "weights_sha256", "seconds", "bytes_read", "peak_memory_bytes",
    "encoded", "notes", "features",
}  # fmt: skip
INGESTED = {
    "dataset", "rows", "features", "nnz", "labels", "scale", "seconds", "bytes_in", "bytes_out",
    "peak_memory_bytes", "files",
}  # fmt: skip
ANY_ADDRESS = (
    'fewpass: --scheduler is "nonsense", which is no address. Give one like '
    'tcp://10.0.0.5:8786, "local" for one in this process, or "none" to do without Dask.\n'
)
NO_DASK = ["--scheduler", "none"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A data set, its held-out rows, and a run on it."""
    folder = tmp_path_factory.mktemp("cli")
    write_clicks(folder / "clicks.svm", 2_000_000)
    ingest = ["ingest", folder / "clicks.svm", folder / "clicks", "--test-fraction", "0.2", "-q"]
    train = ["train", folder / "clicks", folder / "run", "--lam", "10/n", "--passes", "1", "-q"]
    for arguments in (ingest, [*train, *NO_DASK]):
        assert cli.main([str(a) for a in arguments]) == 0
    return folder


# -- help -------------------------------------------------------------------------------------------


#: Options that there are not, and values that do not fit.
WRONG = (
    "train a b --nope", "train a b --tol x", "train a b --memory 3x", "train a b --lam low",
    "ingest a b --test-fraction 2", "evaluate a b --lift-at 7", "predict a b c --threshold 7",
    "explain a --top 0", "cross-validate a --folds 1", "append a b --memory 3x", "forget a --where (",
    "resume a --workers 0", "report a --wait-workers soon", "demo --size 3x", "store publish a 0",
)  # fmt: skip


def test_help_and_a_refusal_wait_for_no_compiler():
    program = (
        "import sys; from fewpass.flows.cli import main\n"
        f"for words in [[], *(c.split() for c in {[*COMMANDS]})]: assert main([*words, '--help']) == 0\n"
        f"for line in {WRONG}: assert main(line.split()) == 2, line\n"
        "slow = {'numba', 'dask', 'distributed', 'prefect', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_a_table_is_read_without_pandas(tmp_path):
    rows = [f"{word},{k},{k % 3}" for k, word in enumerate(["a", "b"] * 40)]
    (tmp_path / "rows.csv").write_text("\n".join(["word,x,y", *rows]))
    ingest = ["-m", "fewpass", "ingest", "rows.csv", "set", "--label", "y", "-q"]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *ingest], check=True, capture_output=True, text=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert "pyarrow.compute" in done.stderr
    assert "pandas.core" not in done.stderr


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["trian"]])
def test_what_runs_no_command_imports_none(words):
    program = (
        f"import sys; from fewpass.flows.cli import main; main({words})\n"
        "names = {n for n in sys.modules if n.startswith('fewpass.flows.commands.')}\n"
        "sys.exit(f'imported {names}' if names or 'pydantic' in sys.modules else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize("words", COMMANDS)
def test_help_has_every_argument_and_option(words, capsys):
    """Those of every day in one page, the rest in another; a line each; all about each on demand."""
    assert cli.main([*words.split(), "--help"]) == 0
    short, command = capsys.readouterr().out, function_of(words)
    assert cli.main([*words.split(), "--help", "all"]) == 0
    whole = capsys.readouterr().out
    assert all(f"\n  {place.name} " in short for place in arguments_of(command))
    options = [*options_of(command)]
    for option in options:
        shown = f"\n  {spelled(option)}"
        assert shown in whole
        assert (shown in short) == option.everyday
    assert sum(option.everyday for option in options) <= 17
    assert cli.main([*words.split(), "--help", options[-1].names[0]]) == 0
    assert text_of(options[-1], {}) in " ".join(capsys.readouterr().out.split())
    assert cli.main(["--help", *words.split()]) == 0
    assert capsys.readouterr().out == short
    assert cli.main([*words.split(), "--help", "nosuch"]) == 2
    assert f"{words} has no option --nosuch." in capsys.readouterr().err


def test_nothing_asked_for_says_what_to_do_first(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for name in re.findall(r"^  fewpass (\w+)", shown, re.MULTILINE):
        assert name in COMMANDS


def test_other_programs_words_stand_for_options_that_there_are():
    """Where a command has the option, and none of the other name."""
    known = [{n for o in options_of(function_of(words)) for n in o.names} for words in COMMANDS]
    for name, others in OTHER_NAMES.items():
        for other in others.split():
            assert any(called((name,)) in own and called((other,)) not in own for own in known), (
                other
            )


def test_what_lies_in_the_folder_says_what_comes_next(work, tmp_path, monkeypatch, capsys):
    def told(folder):
        monkeypatch.chdir(folder)
        assert cli.main([]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= 80
        return shown

    assert "Next, in this folder" not in told(tmp_path)
    assert "fewpass evaluate run clicks-test\n" in told(work)
    assert "fewpass train" not in told(work).partition("Next")[2]
    (tmp_path / "clicks").symlink_to(work / "clicks-test")
    assert "fewpass train clicks clicks-model\n" in told(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_bytes((work / "run" / "run.json").read_bytes())
    assert "fewpass resume run\n" in told(tmp_path)  # its log has no end
    (tmp_path / "run" / "run.json").write_bytes(b"[]")
    assert "fewpass resume run\n" in told(tmp_path)


def test_every_method_has_a_page(as_json):
    every = as_json("methods")
    listed, able = every["methods"], every["combinations"]
    steep = {method for row in able if "poisson" in row["losses"] for method in row["methods"]}
    assert set(listed) == set(METHODS)
    for kind in listed:
        told = as_json("methods", kind)
        assert listed[kind] in " ".join(told["what"].split())
        names = {one["name"] for one in told["settings"]}
        assert names == {f"solver.{n}" for n in method_class(kind).model_fields if n != "kind"}
        assert all(one["what"] for one in told["settings"]), kind
        refuses = "but poisson" in told["losses"] or "alone" in told["losses"]
        assert refuses == (kind not in steep), kind


@pytest.fixture
def installed(tmp_path, monkeypatch, capsys):
    """Install the script of a shell into an empty home; return where it is."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def install(*words):
        assert cli.main(["--install-completion", *words]) == 0
        return Path(capsys.readouterr().out.partition(" is written")[0])

    return install


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", ".local/share/bash-completion/completions/fewpass"),
        ("zsh", ".zfunc/_fewpass"),
        ("fish", ".config/fish/completions/fewpass.fish"),
    ],
)
def test_completion_scripts_are_where_shells_look(shell, place, installed, tmp_path, monkeypatch):
    path = installed(shell)
    assert path == tmp_path / "home" / place
    assert "fewpass --complete" in path.read_text()
    path.unlink()
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert installed() == path and path.exists()


def test_no_script_of_another_shell(installed, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    for words in ([], ["tcsh"]):
        assert cli.main(["--install-completion", *words]) == 2
        assert "knows bash, zsh, fish, not 'tcsh'" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("tra", ["train"]),
        ("store p", [["store", "publish"][1]]),
        ("methods newt", ["newton"]),
        ("train data run --loss squared_", ["squared_hinge"]),
        ("train data run --test-", ["--test-fraction", "--test-by", "--test-group"]),
        ("train da", []),
        ("train data run --label da", []),
    ],
)
def test_words_are_completed_to_commands_options_and_choices(words, completed):
    assert sorted(candidates(words.split())) == sorted(completed)


def test_bash_completes(installed):
    script = installed("bash")
    asked = "COMP_WORDS=(fewpass methods newt); COMP_CWORD=2; _fewpass; echo $COMPREPLY"
    found = subprocess.run(
        ["bash", "--norc", "-c", f"source {script}; {asked}"], capture_output=True, text=True,
        check=True, env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert found.stdout.strip() == "newton"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("autoloaded", [True, False])
def test_zsh_runs_the_function_that_it_was_given(installed, autoloaded):
    script = installed("zsh")
    calls = f"fpath+={script.parent}; autoload -Uz compinit; compinit -u -D; "
    calls += "_files() { echo called; }; "
    calls += "_fewpass" if autoloaded else f"source {script}; $_comps[fewpass]"
    found = subprocess.run(
        ["zsh", "-fc", calls], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "called" in found.stdout, found.stderr


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_tables_fit_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    for words in (
        ["--help"],
        ["train", "--help"],
        ["ingest", "--help", "all"],
        ["methods"],
        ["methods", "sdca"],
    ):
        assert cli.main(words) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns), words


# -- results ----------------------------------------------------------------------------------------


def test_json_of_the_whole_way(work, as_json, tmp_path):
    made = as_json("ingest", work / "clicks.svm", tmp_path / "d", "--test-fraction", "0.2")
    assert set(made) == INGESTED | {"test_dataset", "test_rows"}
    trained = as_json("train", tmp_path / "d", tmp_path / "r", "--certify", *NO_DASK)
    assert set(trained) == TRAINED
    assert trained["rows_seen"] == made["rows"]
    assert trained["certificate"] >= 0.0
    resumed = as_json("resume", tmp_path / "r", *NO_DASK)
    assert set(resumed) == TRAINED
    assert resumed["weights_sha256"] == trained["weights_sha256"]
    on_training = as_json("evaluate", tmp_path / "r", tmp_path / "d", *NO_DASK)
    metrics = {
        "base_error", "balanced_accuracy", "f1", "precision", "recall", "average_precision",
        "base_precision",
        "lift", "lift_top", "log_loss", "base_log_loss", "brier", "base_brier", "calibration_error",
    }  # fmt: skip
    assert set(on_training) == {"rows", "objective", "loss", "error", "auc"} | metrics
    assert on_training["rows"] == made["rows"]
    held_out = as_json("evaluate", tmp_path / "r", made["test_dataset"], *NO_DASK)
    assert held_out["rows"] == made["test_rows"]
    told = as_json("predict", tmp_path / "r", work / "clicks.svm", tmp_path / "p.csv")
    assert told["rows"] == made["rows"] + made["test_rows"]


def test_json_of_a_regression(as_json, tmp_path):
    lines = [f"{k % 7 + 0.5} 1:{k % 7} 2:{k % 3}\n" for k in range(500)]
    (tmp_path / "numbers.svm").write_text("".join(lines))
    made = as_json("ingest", tmp_path / "numbers.svm", tmp_path / "d", "--task", "regression")
    assert made["labels"] is None
    as_json("train", tmp_path / "d", tmp_path / "r", "--passes", 5, *NO_DASK)
    found = as_json("evaluate", tmp_path / "r", tmp_path / "d", *NO_DASK)
    based = {"mae", "base_mae", "rmse", "base_rmse"}
    assert set(found) == {"rows", "objective", "loss", "mse", "r2", "mape"} | based


def test_words_for_people(work, fewpass):
    status, out, err = fewpass("evaluate", work / "run", work / "clicks-test", *NO_DASK)
    assert status == 0
    assert "auc" in out
    assert "napshot" in err
    status, out, err = fewpass("resume", work / "run", *NO_DASK)
    assert "--certify" in err
    assert "onepass" in out
    status, out, err = fewpass("report", work / "run")
    assert "best learner" in out
    status, out, err = fewpass("resume", work / "run", "-q", *NO_DASK)
    assert (status, out, err) == (0, "", "")


def test_inspect_tells_what_lies_there(work, as_json, fewpass):
    kinds = {"clicks": "dataset", "run": "run", "run/snapshots/000001.safetensors": "snapshot"}
    for place, kind in kinds.items():
        assert as_json("inspect", work / place)["kind"] == kind
        assert fewpass("inspect", work / place)[0] == 0


def test_inspect_has_the_lam_that_was_chosen(work, tmp_path, as_json):
    trained = as_json("train", work / "clicks", tmp_path / "run", "--lam", "10/n,1e-9", *NO_DASK)
    assert as_json("inspect", tmp_path / "run")["lam"] == trained["lam"] > 1e-9


def test_check_tells_how_far_it_is(work):
    for place, end in (("clicks", "of "), ("run", "snapshots")):
        told = []
        assert list(faults(str(work / place), lambda share, said: told.append((share, said)))) == []
        shares = [share for share, _ in told]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert end in told[-1][1]


def test_check_names_what_is_damaged(work, as_json, fewpass, tmp_path):
    assert fewpass("ingest", work / "clicks.svm", tmp_path / "d", "-q")[0] == 0
    assert as_json("check", tmp_path / "d")["ok"]
    victim = min((tmp_path / "d").glob("rows-*/*/c.0"))
    raw = bytearray(victim.read_bytes())
    raw[len(raw) // 2] ^= 1
    victim.write_bytes(raw)
    status, out, err = fewpass("check", tmp_path / "d", "--json")
    assert status == 1
    assert [len(one["damaged"]) for one in json.loads(out)["places"]] == [1]
    assert str(victim) in err
    assert fewpass("train", tmp_path / "d", tmp_path / "r", *NO_DASK)[0] == 1
    assert as_json("check", work / "run")["ok"]


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "{work}/clicks", "{new}", "--passes", "0"], ["--passes is 0"]),
        (["train", "{work}/clicks", "{new}", "--lam", "n/1"], ["n/1"]),
        (["train", "{work}/clicks", "{new}", "--memory", "lots"], ["lots", "256MB"]),
        (["train", "{work}/clicks", "{new}", "--set", "gamma0=1"], ["solver.NAME=VALUE"]),
        (["train", "{work}/clicks", "{new}", "--set", "solver.speed=1"], ["solver.speed"]),
        (["train", "{work}/clicks", "{new}", "--set", "solver.gamma0=-1"], ["solver.gamma0 is -1"]),
        (["train", "{work}/clicks", "{new}", "--config", "{work}/no.toml"], ["no.toml"]),
        (["train", "{work}/clicks", "{work}/run", "--lam", "2/n"], ["another plan", "resume"]),
        (["train", "{work}/nothing", "{new}"], ["nothing", "fewpass ingest"]),
        (["train", "{work}/clicks", "{new}", "--memory", "1MB"], ["1 MB"]),
        (["resume", "{new}"], ["nothing at", "a run was expected"]),
        (["evaluate", "{new}", "{work}/clicks"], ["nothing at", "a run was expected"]),
        (["predict", "{work}/run", "{work}/clicks", "{new}.xlsx"], [".xlsx", ".parquet"]),
        (["predict", "{work}/run", "{work}/clicks", "-", "--json"], ["standard output"]),
        (["inspect", "{work}/nothing"], ["nothing"]),
        (["ingest", "{work}/nothing.svm", "{new}"], ["nothing.svm"]),
        (
            ["ingest", "{work}/clicks.svm", "{new}", "--test-fraction", "2"],
            ["--test-fraction is 2"],
        ),
        (["ingest", "{work}/clicks.svm", "{new}", "--label", "7"], ["label"]),
        (["demo", "{work}", "--size", "1MB"], ["no demo made"]),
        (["demo", "{new}", "--memory", "1MB"], ["1 MB"]),
    ],
)
def test_bad_requests(work, fewpass, tmp_path, arguments, words):
    place = {"work": work, "new": tmp_path / "new"}
    asked = [a.format(**place) for a in arguments]
    status, out, err = fewpass(*asked, *(NO_DASK if asked[0] in ("train", "resume") else []))
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    assert err.startswith("fewpass: ")
    assert all(word in err for word in words), err
    assert not (tmp_path / "new").exists()


def test_a_cluster_that_cannot_be_reached(fewpass, work, tmp_path, monkeypatch):
    ask = ["train", work / "clicks", tmp_path / "new", "--scheduler"]
    assert fewpass(*ask, "nonsense")[::2] == (2, ANY_ADDRESS)
    with dask.config.set({"distributed.comm.timeouts.connect": "300ms"}):
        status, _, err = fewpass(*ask, "tcp://127.0.0.1:1")
    assert status == 1
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in err


def test_debug_shows_where(fewpass, tmp_path):
    status, _, err = fewpass("resume", tmp_path / "new", "--debug", *NO_DASK)
    assert status == 2
    assert "Traceback" in err


def test_a_full_disk_is_a_failed_run(fewpass, work, tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device", str(tmp_path / "x"))

    monkeypatch.setattr("fewpass.pipeline.runs.run_folder.RunFolder.begin", full)
    status, _, err = fewpass("train", work / "clicks", tmp_path / "x", *NO_DASK)
    assert status == 1
    assert "No space left" in err


# -- settings ---------------------------------------------------------------------------------------


def training(**options):
    return training_settings("data", TrainingOptions(**options), PlanSource(), TrainingPlan)[0]


def test_the_command_line_wins_over_the_file(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(
        'lam = "5/n"\npasses = 3\nworkers = 2\n'
        "[solver]\ngamma0 = 0.5\naverage_from = 0.2\n[train]\nseed = 9\n[ingest]\nscale = 'maxabs'\n"
    )
    options = TrainingOptions(passes=4, set=("solver.gamma0=0.25",))
    plan, place = training_settings("data", options, PlanSource(config=file), TrainingPlan)
    assert (plan.lam.written, plan.passes, plan.seed, place.workers) == ("5/n", 4, 9, 2)
    assert (plan.solver.gamma0, plan.solver.average_from) == (0.25, 0.2)


def test_an_unknown_setting_in_the_file_is_named(tmp_path):
    (tmp_path / "plan.toml").write_text("lambda = 1\n")
    with pytest.raises(BadInput, match=r'plan\.toml has a setting "lambda"'):
        training_settings(
            "d", TrainingOptions(), PlanSource(config=tmp_path / "plan.toml"), TrainingPlan
        )


@given(
    lam=st.floats(1e-9, 1e3) | st.sampled_from(["1/n", "10/n"]),
    solver=st.sampled_from(["sgd", "asgd"]),
    passes=st.integers(1, 99) | st.none(),
    tol=st.floats(1e-9, 1.0) | st.none(),
    positive=st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1)
    | st.none(),
)
def test_the_printed_plan_is_the_plan(tmp_path_factory, lam, solver, passes, tol, positive):
    plan = training(lam=str(lam), solver=solver, passes=passes, tol=tol, positive=positive)
    file = tmp_path_factory.getbasetemp() / "printed.toml"
    file.write_text(as_toml(plan, Execution()))
    assert (
        training_settings("data", TrainingOptions(), PlanSource(config=file), TrainingPlan)[0]
        == plan
    )


def test_the_printed_ingest_plan_is_the_plan(fewpass, work, tmp_path):
    asked = ["ingest", work / "clicks.svm", tmp_path / "d", "--scale", "maxabs", "--zero-based"]
    status, out, _ = fewpass(*asked, "--seed", "3", "--no-shuffle", "--dry-run")
    assert status == 0
    assert not (tmp_path / "d").exists()
    (tmp_path / "plan.toml").write_text(out)
    config = PlanSource(config=tmp_path / "plan.toml")
    plan, _ = ingest_settings(["s"], "d", IngestOptions(), Where(), config)
    assert (plan.scale, plan.shuffle, plan.options.zero_based) == ("maxabs", False, True)
    assert plan.seed == 3
    (tmp_path / "t.csv").write_text("a,b,y\n" + "1,2,0\n2,1,1\n" * 20)
    status, out, _ = fewpass(
        "ingest", tmp_path / "t.csv", tmp_path / "d", "--drop", "0", "--dry-run"
    )
    (tmp_path / "plan.toml").write_text(out)
    config = PlanSource(config=tmp_path / "plan.toml")
    plan, _ = ingest_settings(["s"], "d", IngestOptions(), Where(), config)
    assert (status, plan.options.drop) == (0, (0,))


def test_the_printed_plan_has_the_end_that_nobody_named(fewpass, work, tmp_path):
    status, out, _ = fewpass("train", work / "clicks", tmp_path / "run", "--dry-run", "--json")
    assert (status, json.loads(out)["tol"], json.loads(out)["passes"]) == (0, 1e-3, 100)
    for asked in (["--passes", "1"], ["--solver", "asgd"]):
        _, out, _ = fewpass("train", work / "clicks", "--dry-run", "--json", *asked)
        assert (json.loads(out)["tol"], json.loads(out)["passes"]) == (None, 1)


def test_tol_raises_the_cap_on_passes():
    assert (training().passes, training(tol=1e-3).passes) == (1, 100)
    assert training(tol=1e-3, passes=7).passes == 7


def test_columns_are_names_or_positions():
    assert checked(SourceOptions, {"label": "-1"}).label == -1
    assert checked(SourceOptions, {"label": "price"}).label == "price"
    assert checked(SourceOptions, {"drop": ("3", "id")}).drop == (3, "id")


@pytest.mark.parametrize("unbuffered", ["", "1"])  # as images of containers have it
def test_predictions_go_down_a_pipe(work, fewpass, tmp_path, unbuffered):
    """All of them, or as many as the other side takes: then the command ends as any other does."""
    assert fewpass("predict", work / "run", work / "clicks.svm", tmp_path / "out.csv", "-q")[0] == 0
    command = [Path(sys.executable).with_name("fewpass"), "predict", work / "run"]
    words = {"env": os.environ | {"PYTHONUNBUFFERED": unbuffered}, "timeout": 120}
    piped = subprocess.run(
        [*command, work / "clicks.svm", "-"], capture_output=True, check=True, **words
    )
    assert piped.stdout == (tmp_path / "out.csv").read_bytes()
    assert b"took" in piped.stderr
    rows = "".join(f"1 {k % 7 + 1}:1\n" for k in range(60_000))  # more than a pipe holds
    (tmp_path / "many.svm").write_text(rows)
    line = shlex.join(map(str, [*command, tmp_path / "many.svm", "-", "-q"]))
    script = f"{line} | head -3; echo ${{PIPESTATUS[@]}}"
    cut = subprocess.run(["bash", "-c", script], capture_output=True, text=True, **words)
    first, *_, statuses = cut.stdout.splitlines()
    assert (first, len(cut.stdout.splitlines())) == ("predicted,score", 4)
    assert (statuses, cut.stderr) == (f"{128 + signal.SIGPIPE} 0", "")
