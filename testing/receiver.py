"""A server on this machine that takes what is posted to it, for tests of who tells whom."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def receiver() -> Iterator[tuple[list[tuple[str, bytes]], str]]:
    """Yield what was posted, path and body, and the address."""
    posted: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield posted, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
