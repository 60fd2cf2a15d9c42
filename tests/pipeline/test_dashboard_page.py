"""Pages in a real browser: axe finds nothing, they fit a phone; that about learning tells silence."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from importlib.resources import files

import pytest
from websockets.sync.client import connect

from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from fewpass.pipeline.dashboard.routes import _serve
from fewpass.pipeline.lease import Lease
from fewpass.pipeline.runs.run_folder import KEY, RunFolder
from fewpass.pipeline.runs.run_log import LOG
from fewpass.pipeline.settings.training_plan import TrainingPlan
from testing.aged_log import age
from testing.datasets import make
from testing.interruptions import trained
from testing.prefect_server import patience, wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
    pytest.mark.timeout(300),
]
SIZES = {"phone": 360, "desk": 1280}
WAIT_S = 60
DEAD = f"{socket.gethostname()}:{(1 << 22) + 1}"  # a worker whose process there cannot be


class Browser:
    """A tab of a headless Chromium, spoken to over its debugging protocol."""

    def __init__(self, folder):
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
                 f"--user-data-dir={folder}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen([CHROMIUM, *flags], stderr=subprocess.PIPE, text=True)
        address = next(line.split()[-1] for line in self.process.stderr if "listening on" in line)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self._socket = connect(address, max_size=None, open_timeout=patience(WAIT_S))
        self._asked = 0
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]

    def _ask(self, method, **params):
        self._asked += 1
        told = {"id": self._asked, "method": method, "params": params}
        session = getattr(self, "_session", None)
        self._socket.send(json.dumps(told | ({"sessionId": session} if session else {})))
        while (answer := json.loads(self._socket.recv(patience(WAIT_S)))).get("id") != self._asked:
            pass
        if "error" in answer:
            raise LookupError(answer)
        return answer["result"]

    def look(self, width, scheme):
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                  mobile=False)  # fmt: skip
        self._ask("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip

    def open(self, url):
        """Load the page, and have it drawn: what was there before has cards, too."""
        self("window.isBefore = true")
        self._ask("Page.navigate", url=url)
        wait_for(self._is_drawn, WAIT_S, "the page")

    def _is_drawn(self):
        with contextlib.suppress(LookupError):  # between two pages there may be nobody to ask
            return self("!window.isBefore && document.querySelectorAll('.card').length")

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def __call__(self, expression):
        done = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True,
                         returnByValue=True)  # fmt: skip
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def close(self):
        self._socket.close()
        self.process.terminate()
        self.process.wait(30)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    dataset = make(folder / "data", n=4000).folder.url
    made = []
    for solver in ("s2gd+", "sdca"):
        plan = TrainingPlan(
            dataset=dataset, lam="1/n", solver={"kind": solver}, tol=1e-6, memory="97MB"
        )
        trained(plan, folder / f"run-{solver}")
        made.append(str(folder / f"run-{solver}"))
    return made


@pytest.fixture(scope="module")
def page(runs):
    """Address of a server of the page."""
    urls, loop = [], asyncio.new_event_loop()
    serving = loop.create_task(_serve(tuple(runs), 0, urls.append))

    def serve():
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)

    thread = threading.Thread(target=serve)
    thread.start()
    yield wait_for(lambda: urls and urls[0], 30, "the server of the page")
    loop.call_soon_threadsafe(serving.cancel)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


def violations(browser):
    """What axe finds amiss on the page as it is."""
    browser(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8") + "; 0")
    return browser(
        "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html + n.failureSummary)))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_axe_finds_nothing_and_it_fits(page, browser, width, scheme):
    browser.look(width, scheme)
    browser.open(page)
    browser(
        "document.querySelector('#other').value = '1'; document.querySelector('#other').onchange({target: {value: '1'}})"
    )
    wait_for(
        lambda: "run-sdca" in browser("document.querySelector('main').textContent"),
        WAIT_S,
        "the other run",
    )
    assert browser("document.documentElement.scrollWidth") <= width
    assert violations(browser) == []
    background = browser("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, background[4:-1].split(",")))
    assert (lightness < 384) == (scheme == "dark")


@pytest.fixture(scope="module")
def pages_of_files(tmp_path_factory):
    """A report, that of an additive model, its functions, and two models compared."""
    folder = tmp_path_factory.mktemp("files")
    write_visits(folder / "visits.csv", 1500, 0)
    ingest = "ingest visits.csv {} --label bought --drop visit --test-fraction 0.2"
    with contextlib.chdir(folder):
        for words in (
            ingest.format("data"), "train data run", "report run --html", "train data other --lam 1",
            "evaluate run other data-test --html compared.html",
            ingest.format("curved") + " --additive --pairs country:spent_before",
            "train curved bent --lam 1/n", "report bent --html", "explain bent --html",
        ):  # fmt: skip
            assert cli.main([*words.split(), "-q"]) == 0, words
    made = ("run/report/report", "bent/report/report", "bent/report/functions", "compared")
    return [(folder / f"{page}.html").as_uri() for page in made]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_axe_finds_nothing_on_pages_of_files(pages_of_files, browser, width, scheme):
    browser.look(width, scheme)
    for address in pages_of_files:
        browser.open(address)
        assert browser("document.documentElement.scrollWidth") <= width, address
        assert violations(browser) == [], address


def test_what_a_screen_reader_and_a_keyboard_find(page, browser):
    browser.look(SIZES["desk"], "light")
    browser.open(page)
    charts = browser(
        "[...document.querySelectorAll('svg')].map(s => [s.getAttribute('role'), s.querySelector('title').textContent, s.querySelector('desc').textContent])"
    )
    assert len(charts) >= 3  # what has one point is told in words
    assert browser("document.querySelector('#state').textContent") == "finished"
    assert re.search(r"\d passes|of [\d,]+ passes", browser("document.body.textContent"))
    assert "NaN" not in browser("document.documentElement.outerHTML")
    assert all(role == "img" and title and ":" in told for role, title, told in charts)
    assert browser("[...document.querySelectorAll('select')].every(s => s.labels.length === 1)")
    certificate = next(told for _, title, told in charts if title.startswith("above the optimum"))
    assert "certificate: " in certificate
    browser(
        "document.querySelector('label').remove(); document.querySelector('header').append(document.createElement('select'))"
    )
    assert any(told.startswith("select-name") for told in violations(browser))  # it does look
    browser.open(page)
    reached = []
    for _ in range(3):
        browser.press("Tab", 9)
        reached.append(browser("document.activeElement.id"))
    assert reached == ["runs", "other", "against"]
    browser("refresh()")
    assert (
        browser("new Promise(r => setTimeout(() => r(document.activeElement.id), 500))")
        == "against"
    )


def test_silence_and_the_dead_are_told(page, browser, runs):
    """A run that is held by a living process, and whose log is forty minutes old."""
    run = RunFolder(runs[0])
    before, began = run.folder.read(LOG), time.monotonic()
    run.folder.write(LOG, b"".join(before.splitlines(keepends=True)[:-1]))  # not the end
    age(run, 40 * 60, lambda event: event | ({"worker": DEAD} if event["event"] == "span" else {}))
    browser.look(SIZES["desk"], "light")
    try:
        with Lease(run.folder):
            browser.open(page)
            news = browser("document.querySelector('#news').textContent")
            minutes = int(re.match(r"no news for (\d+) min", news)[1])
            assert 40 <= minutes <= 40 + (time.monotonic() - began) / 60
            assert browser("document.querySelector('#state').textContent") == "silent"
            assert DEAD in browser("document.querySelector('.name.gone').textContent")
    finally:
        run.folder.write(LOG, before)


def test_a_run_that_cannot_be_read_says_so_and_shows_no_other(page, browser, runs):
    run = RunFolder(runs[1])
    before = run.folder.read(KEY)
    browser.look(SIZES["desk"], "light")
    browser.open(page)
    try:
        run.folder.write(KEY, b"{")
        with Lease(run.folder):  # what was read before counts no more
            browser("document.querySelector('#runs').onchange({target: {value: '1'}})")
            wait_for(lambda: not browser("document.querySelector('main').textContent"), WAIT_S,
                     "the other run")  # fmt: skip
        assert runs[1] in browser("document.querySelector('#facts').textContent")
        assert not browser("document.querySelector('#state').textContent")
    finally:
        run.folder.write(KEY, before)
