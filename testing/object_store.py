"""An S3 of this machine, for tests."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import fsspec


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


@contextmanager
def object_store(bucket: str, secret: str = "testing") -> Iterator[ObjectStore]:
    """Serve an empty bucket during a `with` block.

    Buckets belong to the process, not to the server, so what an earlier one left is forgotten.
    """
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        forget = urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")
        urllib.request.urlopen(forget, timeout=60).close()
        options = {"key": "testing", "secret": secret, "endpoint_url": endpoint}
        fs = fsspec.filesystem("s3", **options)
        fs.mkdir(bucket)
        told = {f"FSSPEC_S3_{name.upper()}": value for name, value in options.items()}
        yield ObjectStore(fs, options, told)
    finally:
        server.stop()
