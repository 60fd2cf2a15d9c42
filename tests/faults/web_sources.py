"""The cases of sources that do not come as they should: servers, and files that change."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from testing import web_server as answers
from testing.web_server import web_server
from tests.faults.families import Case
from tests.faults.sandbox import Sandbox, require_done
from tests.faults.starter import Ended
from tests.faults.subjects import SUBJECTS, bytes_below, digest, write_libsvm
from tests.faults.verdict import Verdict, broken, fault_of

BYTES = 2 << 20  # of a file: several ranges
#: Commands that read a source, as arguments behind the source.
READERS = ("ingest", "ingest, compressed", "train straight", "predict")


def web_sources(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """A server that answers badly: the bits of a good one, or the address with what is wrong."""
    for answer in (*answers.TAKEN, *answers.REFUSED):
        yield Case("P11", name, "a server that answers badly", answer.__name__.replace("_", " "),
                   lambda a=answer: _served(sandbox, name, a))  # fmt: skip


def _served(sandbox: Sandbox, name: str, answer: Callable) -> Verdict:
    content = _content(sandbox, name)
    with web_server(content) as server:
        address = server.url("rows.svm.gz" if "compressed" in name else "rows.svm")
        quiet = sandbox.memory.get(f"web {name}")
        if quiet is None:
            ended = _read(sandbox, name, address)
            require_done(ended)
            quiet = sandbox.memory[f"web {name}"] = _bits(sandbox, name, ended)
        server.answer, server.count = answer, 0
        ended = _read(sandbox, name, address)
    if wrong := fault_of(ended):
        return broken(wrong)
    if ended.status == 0:
        if _bits(sandbox, name, ended) == quiet:
            return Verdict("equal")
        return broken("other rows than those of the file")
    said = " ".join(ended.commands[-1].err.split())
    return Verdict("named") if address in said else broken(f"not named: {said[-300:]}")


def _content(sandbox: Sandbox, name: str) -> bytes:
    """Return the file that is served."""
    if "web file" not in sandbox.memory:
        path = sandbox.root / "web.svm"
        write_libsvm(path, d=12, nnz=4)
        lines = path.read_bytes()
        sandbox.memory["web file"] = lines * (1 + BYTES // len(lines))
    content = sandbox.memory["web file"]
    return gzip.compress(content, 1, mtime=0) if "compressed" in name else content


def _read(sandbox: Sandbox, name: str, address: str) -> Ended:
    sandbox.finished(SUBJECTS["asgd"])
    new = f"{sandbox.at}/new"
    command = {
        "predict": ["predict", f"{sandbox.at}/run", address, f"{sandbox.at}/out.csv"],
        "train straight": ["train", address, new, "--passes", "1", "--scheduler", "none",
                           "--memory", "128MB", "--json"],
    }.get(name, ["ingest", address, new, "--memory", "128MB"])  # fmt: skip
    return sandbox.starter.run([command], watched=sandbox.at, timeout_s=120.0)


def _bits(sandbox: Sandbox, name: str, ended: Ended) -> object:
    if name == "predict":
        return digest(Path(f"{sandbox.at}/out.csv"))
    if name == "train straight":
        return json.loads(ended.commands[-1].out)["weights_sha256"]
    # the manifest and the marker tell the server's port
    found = bytes_below(sandbox.at / "new")
    return {key: value for key, value in found.items() if not key.endswith(".json")}
