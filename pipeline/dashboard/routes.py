"""The page's addresses: /fewpass on a Dask scheduler's dashboard, or on a server of its own.

`dask scheduler --preload fewpass.pipeline.dashboard.routes` adds them to a scheduler of its own
process.  Only runs that trainings announced to the scheduler (or that were named to the server) are
shown: an address in a request never makes anything be read.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import psutil  # type: ignore[import-untyped]
from distributed.http.routing import RoutingApplication
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from fewpass.pipeline.dashboard.hosts import NOTHING, Nothing, OfThisMachine
from fewpass.pipeline.dashboard.metrics import (
    CONTENT_TYPE,
    Sample,
    exposition,
    samples_of,
    samples_of_unread,
)
from fewpass.pipeline.dashboard.shown_run import MOST_SHOWN, ShownRun, shown_run
from fewpass.pipeline.dashboard.view import LABELS, Against, view
from fewpass.pipeline.drawing.charts import style
from fewpass.pipeline.drawing.safe_text import as_json
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.store_state import runs_in
from fewpass.pipeline.passes.on_dask import HAS_PAGE, TOPIC
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import runs_of

T = TypeVar("T")

PLACE = re.compile("[0-9]{1,6}")  # of a run in the list
HOST = "127.0.0.1"  # of a server of its own: nobody but this machine is shown anything
MOST = 65_535  # the last port


def shown_runs(scheduler: Any) -> list[str]:
    """Return the runs that were trained on a scheduler, the newest first."""
    urls = [message["run"] for _, message in scheduler.get_events(TOPIC)]
    return list(dict.fromkeys(reversed(urls)))


class Page(OfThisMachine):
    """The page itself: one document that loads nothing from elsewhere."""

    def get(self) -> None:
        """Send the page."""
        text, policy = page_and_policy()
        self.set_header("Content-Security-Policy", policy)
        self.write(text)


@cache
def page_and_policy() -> tuple[str, str]:
    """Return the page, and a policy by which its own script runs and no other, wherever it is."""
    page = files("fewpass.pipeline.dashboard").joinpath("page.html")
    text = page.read_text(encoding="utf-8")
    text = text.replace("/* page.css */", style())
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'"
    return text, f"{NOTHING}; {own}"


class OfRuns(OfThisMachine):
    """Tells of the runs that a scheduler or a server knows."""

    def initialize(self, scheduler: Any = None, runs: tuple[str, ...] = ()) -> None:
        """Take the scheduler or the runs that are listed."""
        self._scheduler, self._runs = scheduler, runs

    async def listed(self) -> list[str]:
        """Return the runs, the newest first."""
        if self._scheduler is not None:
            return shown_runs(self._scheduler)
        return await in_a_thread(runs_at, self._runs)


async def in_a_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that reads files in a thread: the loop may be the scheduler's own."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def runs_at(urls: Sequence[str]) -> list[str]:
    """Return the runs at addresses, of a store and of a schedule the newest first.

    A place that cannot be read stands for itself, as a run that cannot be: others are shown.
    """
    runs: list[str] = []
    for url in urls:
        try:
            runs += _runs_at(url)
        except (OSError, ValueError):
            runs.append(url)
    return runs


def _runs_at(url: str) -> list[str]:
    if "{date}" in url:
        return [one.url for one in runs_of(url)]
    return [url] if RunFolder(url).exists() else runs_in(url)


def _read(url: str) -> ShownRun:
    """Read a run of the list; OSError or ValueError says why it, or its place, cannot be read."""
    try:
        return shown_run(url)
    except (OSError, ValueError):
        _runs_at(url)
        raise


class View(OfRuns):
    """The page's contents, as JSON."""

    def _gone(self, workers: Iterable[str]) -> list[str]:
        """Return the workers of a run, HOST:PID, that the scheduler has no more.

        Without a scheduler those whose process on this machine is dead.
        """
        if self._scheduler is None:
            here = (worker for worker in workers if worker.startswith(f"{socket.gethostname()}:"))
            return [w for w in here if not psutil.pid_exists(int(w.rpartition(":")[2]))]
        alive = {str(worker.pid) for worker in self._scheduler.workers.values()}
        named = (worker for worker in workers if ":" in worker)
        return [worker for worker in named if worker.rpartition(":")[2] not in alive]

    def _place(self, name: str, default: str) -> int:
        """Return the place of a run in the list (0: the newest), -1 for none."""
        place = self.get_query_argument(name, default)
        if not PLACE.fullmatch(place) and place != default:
            raise web.HTTPError(400, reason=f"{name} is the place of a run: 0 for the newest")
        return int(place)

    async def get(self) -> None:
        """Send a run, drawn, by its place in the list of runs, and maybe next to another."""
        which, other = self._place("which", "0"), self._place("other", "-1")
        against = self.get_query_argument("against", "passes")
        if against not in LABELS:
            raise web.HTTPError(400, reason="against is passes or seconds")
        runs = await self.listed()
        if max(which, other) > 0 and max(which, other) >= len(runs):
            raise web.HTTPError(404, reason="There are not so many runs")
        shown: dict[str, Any] = {"runs": runs, "now": time.time()}
        if which < len(runs):
            compared = runs[other] if 0 <= other < len(runs) else None
            shown |= await in_a_thread(self._shown, runs[which], compared, against)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.write(as_json(shown))

    def _shown(self, url: str, other: str | None, against: Against) -> dict[str, Any]:
        try:
            shown = _read(url)
        except (OSError, ValueError) as error:
            return {"run": url, "error": str(error)}
        compared = None
        with contextlib.suppress(OSError, ValueError):
            compared = shown_run(other) if other else None
        return view(shown, compared, against, self._gone(shown.timeline.workers))


class Metrics(OfRuns):
    """Metrics for Prometheus."""

    async def get(self) -> None:
        """Send the metrics of the newest runs."""
        runs = (await self.listed())[:MOST_SHOWN]
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(await in_a_thread(_metrics, runs))


def _metrics(runs: Sequence[str]) -> str:
    return exposition(sample for url in runs for sample in _samples(url))


def _samples(url: str) -> Iterator[Sample]:
    try:
        shown = _read(url)
    except (OSError, ValueError):
        yield from samples_of_unread(url)
    else:
        yield from samples_of(shown)


def handlers(**arguments: Any) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """Return the page's routes."""
    return [
        (r"/fewpass", Page, {}),
        (r"/fewpass/view.json", View, arguments),
        (r"/fewpass/metrics", Metrics, arguments),
    ]


def add_page(scheduler: Any) -> None:
    """Add the page to a scheduler's dashboard."""
    application = scheduler.http_application
    if isinstance(application, RoutingApplication):  # none without a dashboard
        application.add_handlers(r".*", handlers(scheduler=scheduler))
        setattr(scheduler, HAS_PAGE, True)


def dask_setup(scheduler: Any) -> None:
    """Add the page: what Dask calls of a module given to --preload."""
    add_page(scheduler)


# -- a server of its own, for runs that no cluster shows -------------------------------------------


class Home(OfThisMachine):
    """The server's root: there is one page, and it leads there."""

    def get(self) -> None:
        """Lead to the page."""
        self.redirect("/fewpass")


def serve(runs: Sequence[str], port: int, on_ready: Callable[[str], None]) -> None:
    """Serve the page for these runs until interrupted; `on_ready` gets its address.

    Raises BadInput where the port is taken, or not for everybody.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(tuple(runs), port, on_ready))


async def _serve(runs: tuple[str, ...], port: int, on_ready: Callable[[str], None]) -> None:
    try:
        if not 0 <= port <= MOST:  # the system would take another one
            raise OSError(0, f"there are ports up to {MOST}")  # noqa: TRY301 - reported as the others
        sockets = bind_sockets(port, HOST)
    except OSError as error:
        raise BadInput(
            f"Port {port} of {HOST} cannot be used ({error.strerror}). Choose another, or `port=0` "
            "for any that is free."
        ) from error
    server = HTTPServer(
        web.Application([("/", Home), *handlers(runs=runs)], default_handler_class=Nothing)
    )
    server.add_sockets(sockets)
    on_ready(f"http://{HOST}:{sockets[0].getsockname()[1]}/fewpass")
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()
        await server.close_all_connections()
