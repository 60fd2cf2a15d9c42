"""The page on a small server of its own, for runs that no cluster shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from fewpass.pipeline.dashboard.hosts import Nothing, OfThisMachine
from fewpass.pipeline.dashboard.routes import handlers
from fewpass.pipeline.errors import BadInput

HOST = "127.0.0.1"  # nobody but this machine is shown anything
MOST = 65_535  # the last port


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
        Application([("/", Home), *handlers(runs=runs)], default_handler_class=Nothing)
    )
    server.add_sockets(sockets)
    on_ready(f"http://{HOST}:{sockets[0].getsockname()[1]}/fewpass")
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()
        await server.close_all_connections()
