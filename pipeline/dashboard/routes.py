"""The page's addresses: /fewpass on a Dask scheduler's dashboard, or on a server of its own.

`dask scheduler --preload pipeline.dashboard.routes` adds them to a scheduler of its own process.
Only runs that a training has announced to the scheduler (or that were named to the server) are
shown: an address in a request never makes anything be read.
"""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from distributed.http.routing import RoutingApplication
from tornado import web

from pipeline.dashboard.hosts import OfThisMachine
from pipeline.dashboard.learning import learning
from pipeline.execution.on_dask import TOPIC
from pipeline.training.run_folder import RunFolder


def announced(scheduler: Any) -> list[str]:
    """Return the runs that were trained on a scheduler, the newest first."""
    urls = [message["run"] for _, message in scheduler.get_events(TOPIC)]
    return list(dict.fromkeys(reversed(urls)))


class Page(OfThisMachine):
    """The page itself: one document that loads nothing from elsewhere."""

    def get(self) -> None:
        """Send the page."""
        self.set_header("Content-Security-Policy", "default-src 'self' 'unsafe-inline'")
        self.write(files("pipeline.dashboard").joinpath("page.html").read_text(encoding="utf-8"))


class Numbers(OfThisMachine):
    """What the page draws."""

    def initialize(self, scheduler: Any = None, runs: tuple[str, ...] = ()) -> None:
        """Take where runs are known from."""
        self._scheduler, self._runs = scheduler, runs

    async def get(self) -> None:
        """Send a run's numbers, by its place among the known runs (0: the newest)."""
        runs = list(self._runs) if self._scheduler is None else announced(self._scheduler)
        which = self.get_query_argument("which", "0")
        told: dict[str, Any] = {"runs": runs}
        if which.isdecimal() and int(which) < len(runs):
            loop = asyncio.get_running_loop()  # the scheduler's: nothing may keep it waiting
            told |= await loop.run_in_executor(None, _numbers, runs[int(which)])
        self.write(json.dumps(told))


def _numbers(url: str) -> dict[str, Any]:
    run = RunFolder(url)
    try:
        size = run.folder.size("log.jsonl")
        return _read(url, size, holder_token(run))
    except (OSError, ValueError) as error:
        return {"run": url, "error": str(error)}


def holder_token(run: RunFolder) -> str:
    """Return something that changes when a run is taken up or left."""
    try:
        return run.folder.read("lease.json").decode()
    except FileNotFoundError:
        return ""


@lru_cache(maxsize=8)
def _read(url: str, _size: int, _holder: str) -> dict[str, Any]:
    """Read a run again only when its log has grown."""
    return learning(RunFolder(url))


def handlers(**known: Any) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """Return the page's routes."""
    return [(r"/fewpass", Page, {}), (r"/fewpass/numbers.json", Numbers, known)]


def add_page(scheduler: Any) -> None:
    """Add the page to a scheduler's dashboard."""
    application = scheduler.http_application
    if isinstance(application, RoutingApplication):  # none without a dashboard
        application.add_handlers(r".*", handlers(scheduler=scheduler))


def dask_setup(scheduler: Any) -> None:
    """Add the page: what Dask calls of a module given to --preload."""
    add_page(scheduler)
