"""The page on a small server of its own, for runs that no cluster shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from fewpass.pipeline.dashboard.routes import handlers

HOST = "127.0.0.1"  # nobody but this machine is shown anything


def serve(runs: Sequence[str], port: int, on_ready: Callable[[str], None]) -> None:
    """Serve the page for these runs until interrupted; `on_ready` gets its address."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(tuple(runs), port, on_ready))


async def _serve(runs: tuple[str, ...], port: int, on_ready: Callable[[str], None]) -> None:
    sockets = bind_sockets(port, HOST)
    server = HTTPServer(Application(handlers(runs=runs)))
    server.add_sockets(sockets)
    on_ready(f"http://{HOST}:{sockets[0].getsockname()[1]}/fewpass")
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()
        await server.close_all_connections()
