"""An S3 of this machine, for tests."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication


class ObjectStore(NamedTuple):
    """A bucket on a server in this process.

    Attributes
    ----------
    fs
        The file system that writes there.
    options
        What fsspec takes to make it.
    environment
        The same as variables, for processes that are told nothing else.
    """

    fs: fsspec.AbstractFileSystem
    options: dict[str, str]
    environment: dict[str, str]


class OneWriteAtATime:
    """An application whose writing requests are answered one after the other.

    moto looks whether an object is there and then writes it, and between the two another request
    may do the same: two puts with `If-None-Match: *` would both succeed, which no store does.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._app(environ, start)
        with self._lock:
            return self._app(environ, start)


@contextmanager
def served_s3() -> Iterator[str]:
    """Serve an S3 on a free port during a `with` block, and yield its address."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    app = OneWriteAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def object_store(bucket: str, secret: str = "testing") -> Iterator[ObjectStore]:
    """Serve an empty bucket during a `with` block.

    Buckets belong to the process, not to the server, so what an earlier one left is forgotten.
    """
    with served_s3() as endpoint:
        forget = urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")
        urllib.request.urlopen(forget, timeout=60).close()
        options = {"key": "testing", "secret": secret, "endpoint_url": endpoint}
        fs = fsspec.filesystem("s3", **options)
        fs.mkdir(bucket)
        told = {f"FSSPEC_S3_{name.upper()}": value for name, value in options.items()}
        yield ObjectStore(fs, options, told)
