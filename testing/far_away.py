"""A folder on a distant server: whoever asks for an object waits for it."""

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class FarAway(ThreadingHTTPServer):
    """Serves a folder to this machine, each object `wait` seconds late; 0 at first.

    A training on it takes as long as its requests wait, however fast the machine is, and hardly
    any processor time meanwhile.
    """

    daemon_threads = True

    def __init__(self, folder: str | Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Waiting, directory=str(folder)))
        self.url, self.wait = f"http://127.0.0.1:{self.server_port}", 0.0


class _Waiting(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    disable_nagle_algorithm = True  # which waits, too
    server: FarAway

    def do_GET(self) -> None:
        time.sleep(self.server.wait)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # of who was killed
            super().handle()


@contextmanager
def far_away(folder: str | Path) -> Iterator[FarAway]:
    """Serve a folder while the block lasts."""
    with FarAway(folder) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
