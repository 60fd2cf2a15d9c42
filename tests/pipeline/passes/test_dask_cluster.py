"""A cluster of real processes over TLS: `dask scheduler`, `dask worker`, kill -9, and the page."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import dask.config
import pytest
from dask.utils import parse_timedelta
from distributed.security import Security

from fewpass.pipeline.dashboard.shown_run import shown_run
from fewpass.pipeline.passes.executor import LOST, open_executor
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from testing.datasets import make
from testing.far_away import far_away
from testing.interruptions import trained
from testing.prefect_server import PROJECT, free_port, kill, start, status_of, stop, wait_for

DASK = str(Path(sys.executable).with_name("dask"))
FEWPASS = str(Path(sys.executable).with_name("fewpass"))
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="needs a Chromium to look at the page"
)
PLAN = {
    "passes": 16, "lam": "10/n", "memory": "97MB", "snapshot_every": 0.3, "streams": 2,
    "certify": True,
}  # fmt: skip
pytestmark = pytest.mark.timeout(600)


TLS = "DASK_DISTRIBUTED__COMM__TLS__"
CONNECT = "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"
FILES = {f"{TLS}CA_FILE": "ca", f"{TLS}CLIENT__CERT": "cert", f"{TLS}CLIENT__KEY": "key"}


class Cluster:
    """A scheduler and workers, each a process of its own, that talk over TLS."""

    def __init__(self, folder):
        self.folder, self.port, self.page_port = folder, free_port(), free_port()
        self.address = f"tls://127.0.0.1:{self.port}"
        self.page = f"http://127.0.0.1:{self.page_port}/fewpass"
        made = Security.temporary()
        files = {
            "ca": made.tls_ca_file,
            "cert": made.tls_scheduler_cert,
            "key": made.tls_scheduler_key,
        }
        for name, text in files.items():
            (folder / f"{name}.pem").write_text(text)
        own = {file: str(folder / f"{name}.pem") for file, name in FILES.items()}
        self.environment = os.environ | {CONNECT: "5s"} | own
        self.scheduler, self.workers = None, []

    def tls(self, ca, cert, key):
        """The files, as options of those names."""
        names = {ca: "ca", cert: "cert", key: "key"}
        return [
            w for option, name in names.items() for w in (option, str(self.folder / f"{name}.pem"))
        ]

    def start_scheduler(self):
        self.scheduler = start(
            [DASK, "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--protocol", "tls",
             "--dashboard-address", f"127.0.0.1:{self.page_port}",
             "--preload", "fewpass.pipeline.dashboard.routes",
             *self.tls("--tls-ca-file", "--tls-cert", "--tls-key")],
            self.environment, self.folder / "scheduler.log",
        )  # fmt: skip
        wait_for(self.answers, 60, "the scheduler")

    def answers(self):
        assert self.scheduler.poll() is None, (self.folder / "scheduler.log").read_text()
        try:
            return self.view() is not None
        except OSError:
            return False

    def start_worker(self):
        self.workers.append(start(
            [DASK, "worker", self.address, "--no-nanny", "--nthreads", "1", "--memory-limit", "0",
             "--host", "127.0.0.1", "--no-dashboard",
             *self.tls("--tls-ca-file", "--tls-cert", "--tls-key")],
            self.environment, self.folder / "workers.log",
        ))  # fmt: skip

    def view(self, which=0):
        with urllib.request.urlopen(f"{self.page}/view.json?which={which}", timeout=30) as answer:
            return json.load(answer)

    def fewpass(self, *words):
        return [FEWPASS, *words, "--json", "--scheduler", self.address]

    def run(self, *words):
        """Run a command to its end."""
        return subprocess.run(
            self.fewpass(*words), env=self.environment, cwd=PROJECT, capture_output=True,
            text=True, timeout=240,
        )  # fmt: skip

    def stop(self):
        for process in [*self.workers, self.scheduler]:
            stop(process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.start_scheduler()
    cluster.start_worker()
    cluster.start_worker()
    yield cluster
    cluster.stop()


@pytest.fixture
def rows(tmp_path):
    """A data set that does not fit into memory and comes slowly: a training on it lasts."""
    make(tmp_path / "set", n=9000, d=40, chunk_rows=500)
    with far_away(tmp_path / "set") as rows:
        rows.wait = 0.075
        yield rows


def test_kill_two_workers_and_the_scheduler_in_one_run(cluster, rows, tmp_path):
    quiet = trained(TrainingPlan(dataset=str(tmp_path / "set"), **PLAN), tmp_path / "quiet")
    (tmp_path / "plan.toml").write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in PLAN.items())
    )
    run = tmp_path / "run"
    with (tmp_path / "said").open("w") as said:
        training = subprocess.Popen(
            cluster.fewpass("train", rows.url, str(run), "--config", str(tmp_path / "plan.toml")),
            env=cluster.environment, stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip

    def snapshot(number):
        assert training.poll() is None, (tmp_path / "said").read_text()
        wait_for((run / f"snapshots/{number:06d}.safetensors").exists, 90, f"snapshot {number}")

    snapshot(2)
    for victim in list(cluster.workers):
        seen = int(RunFolder(str(run)).snapshots.names()[-1])
        kill(victim)
        cluster.start_worker()
        snapshot(seen + 1)  # it went on without the dead one
    kill(cluster.scheduler)
    assert status_of(training, 120, "the end without a scheduler") == 1
    text = (tmp_path / "said").read_text()
    assert "scheduler is gone" in text, text
    assert "Traceback" not in text

    rows.wait = 0.0
    cluster.start_scheduler()  # the workers come back by themselves, or these do
    cluster.start_worker()
    done = cluster.run("resume", str(run))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for name in ("weights_sha256", "objective", "rows_seen"):
        assert told[name] == getattr(quiet.result, name), name

    view = cluster.view()
    assert (view["runs"], view["state"]) == ([str(run)], "finished")
    start = next(event for event in RunFolder(str(run)).events() if event["event"] == "start")
    assert start["dashboard"].endswith(f":{cluster.page_port}/fewpass")
    assert view["facts"].startswith("asgd, lam ")
    timeline = shown_run(str(run)).timeline
    assert timeline.certificates[-1].objective == quiet.result.objective
    assert timeline.passes == pytest.approx(PLAN["passes"])
    assert len(timeline.workers) >= 3
    work = timeline.marks[-1]
    assert 0.0 <= work.waiting < work.working
    with pytest.raises(urllib.error.HTTPError, match="404"):
        cluster.view(7)
    with urllib.request.urlopen(f"{cluster.page}/metrics", timeout=30) as answer:
        assert f'fewpass_passes{{run="{run}"}} {PLAN["passes"]}' in answer.read().decode()


def setting(variable):
    """What Dask makes of a variable of its environment."""
    return variable.removeprefix("DASK_").replace("__", ".").replace("_", "-").lower()


def test_who_has_no_certificate_is_refused(cluster, fewpass, tmp_path):
    dataset = make(tmp_path / "set", n=500).folder.url
    own = {variable: cluster.environment[variable] for variable in (*FILES, CONNECT)}

    def refused(address, **files):
        with dask.config.set({setting(name): value for name, value in (own | files).items()}):
            return fewpass("train", dataset, tmp_path / "run", "--scheduler", address)

    strange = tmp_path / "strange.pem"
    strange.write_text(Security.temporary().tls_ca_file)
    (tmp_path / "no.pem").write_text("hello")
    for files, status, said in (
        (dict.fromkeys(FILES, ""), 2, f"{TLS}CA_FILE"),
        ({f"{TLS}CLIENT__KEY": str(tmp_path / "no.pem")}, 2, "cannot be used"),
        ({f"{TLS}CA_FILE": str(strange)}, 1, f"No Dask scheduler answers at {cluster.address}"),
    ):
        *ended, err = refused(cluster.address, **files)
        assert ended == [status, ""]
        assert said in err
    in_the_clear = cluster.address.replace("tls://", "tcp://")
    status, _, err = refused(in_the_clear)
    assert status == 1
    assert f"No Dask scheduler answers at {in_the_clear}" in err
    assert "If it talks over TLS, its address begins with tls://." in err
    assert not (tmp_path / "run").exists()


def test_processes_started_here_talk_over_tls_when_asked(tmp_path):
    plan = TrainingPlan(dataset=make(tmp_path / "set", n=500).folder.url, lam="1/n")
    with open_executor(Execution(workers=1, threads=1, encrypt=True)) as executor:
        trained(plan, tmp_path / "run", executor)
        assert executor._client.scheduler.address.startswith("tls://127.0.0.1:")
        assert parse_timedelta(dask.config.get(LOST)) >= 60.0  # a process that died may come back
        with urllib.request.urlopen(executor.dashboard, timeout=30) as page:
            assert b"<title>fewpass</title>" in page.read()


def test_nothing_large_travels_through_the_scheduler(tmp_path):
    """A task's message holds addresses and settings, whatever the data and the model weigh."""
    from distributed.protocol.pickle import dumps

    from testing.jobs import job_of

    dataset = make(tmp_path / "set", n=1600, d=3000, chunk_rows=4)
    job = job_of(TrainingPlan(dataset=dataset.folder.url, lam="1/n"), dataset)
    assert len(dumps(job)) < 100_000
    sizes = sum(path.stat().st_size for path in (tmp_path / "set").rglob("*") if path.is_file())
    assert sizes > 10_000_000


CHARTS = (
    "Loss and objective", "above the optimum, at most", "Step size", "Rows a second", "as stored",
)  # fmt: skip


def seen(url, dataset="none"):
    """The page as Chromium has it after some seconds."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
    looked = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", url], capture_output=True, text=True, timeout=120
    )
    page = looked.stdout
    assert all(f"{title}</h3>" in page for title in CHARTS)
    assert page.count("<svg") >= 3  # a run that took no two seconds has its speeds in words
    assert "NaN" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "").replace(dataset, "")
    return page


@needs_browser
def test_the_page_of_a_running_run_in_a_browser(rows, tmp_path):
    """On the dashboard of the training's own cluster: twice, and further the second time."""
    words = ["--solver", "s2gd", "--tol", "1e-99", "--passes", "100000", "--memory", "97MB"]
    words += ["--scheduler", "local"]

    def found(kind):
        return [e for e in RunFolder(str(tmp_path / "run")).events() if e["event"] == kind]

    process = start(
        [FEWPASS, "train", rows.url, str(tmp_path / "run"), *words], os.environ, tmp_path / "said"
    )
    try:
        wait_for(lambda: len(found("certificate")) >= 3, 120, "what every chart needs")
        address = found("start")[0]["dashboard"]
        passes = []
        for _ in range(2):
            proven = len(found("certificate"))
            wait_for(lambda n=proven: len(found("certificate")) > n, 120, "one more pass")
            page = seen(address, rows.url)
            assert 'class="state running"' in page
            assert "above the optimum" in page
            passes.append(float(re.search(r"([\d.e+]+) of 100,000 passes", page)[1]))
        assert 1.0 <= passes[0] < passes[1]
    finally:
        stop(process)
