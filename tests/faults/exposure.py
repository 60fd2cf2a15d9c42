"""The cases of strangers: links, pipes, addresses, secrets and open ports."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from testing.prefect_server import patience
from tests.faults import hostile
from tests.faults.families import STORED, Case, Stored, _bits_of
from tests.faults.sandbox import Sandbox
from tests.faults.starter import Ended
from tests.faults.subjects import SUBJECTS, bytes_below, write_libsvm
from tests.faults.verdict import Verdict, broken, fault_of, names, same

# -- links and pipes ---------------------------------------------------------------------------

#: Objects and folders by what they belong to; the last of what a glob finds.
PLACES: dict[str, tuple[str, ...]] = {
    "data set: ingest of a table": (
        "set/manifest.json", "set/X/c.1.0", "set/target/c.0", "set/columns.bin", "set/zarr.json",
    ),
    "data set: ingest of text": ("set/rows-000001/indices/c.0", "set/rows-000001"),
    "column copy: sparse": (
        "set/by-column/manifest.json", "set/by-column/target", "set/by-column/rows",
    ),
    "rows of an ingest of text": (
        "set/.ingest/mapped.json", "set/.ingest/part-*", "set/.ingest/lock",
    ),
    "killed run: sdca": (
        "run/run.json", "run/log.jsonl", "run/lease.json", "run/rows", "run/rows/*",
        "run/snapshots", "run/snapshots/*.safetensors",
    ),
}  # fmt: skip
PIPE_TIMEOUT_S = 60.0


def links(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """An object or a folder that lies elsewhere, with a link to it in its place."""
    for pattern in PLACES[name]:
        yield Case("P8", name, "a link that leaves the folder", pattern,
                   lambda p=pattern: _linked(sandbox, STORED[name], p))  # fmt: skip


def pipes(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """A pipe that nobody writes to, in place of an object."""
    for pattern in PLACES[name]:
        if _place(sandbox, STORED[name], pattern).is_file():
            yield Case("P7", name, "a pipe in place of an object", pattern,
                       lambda p=pattern: _piped(sandbox, STORED[name], p))  # fmt: skip


def _place(sandbox: Sandbox, stored: Stored, pattern: str) -> Path:
    stored.restore(sandbox, 0)
    return max(sandbox.at.glob(pattern))


def _commands(sandbox: Sandbox, stored: Stored) -> list[list[str]]:
    looks = [["check", "--free", f"{sandbox.at}/{stored.checked}"]] if stored.checked else []
    if stored.checked == "run":
        looks.append(["report", f"{sandbox.at}/run"])
    return [*looks, stored.subject.command(sandbox.at)]


def _linked(sandbox: Sandbox, stored: Stored, pattern: str) -> Verdict:
    quiet = _bits_of(sandbox, stored)
    path, outside = _place(sandbox, stored, pattern), sandbox.root / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    (outside / "diary").write_text("dear")
    shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name)
    before = bytes_below(outside)
    ended = sandbox.starter.run(_commands(sandbox, stored), watched=sandbox.at)
    if wrong := fault_of(ended):
        return broken(wrong)
    if bytes_below(outside) != before:
        return broken("it wrote through a link that leaves the folder")
    return _refused_or_equal(stored, sandbox, ended, quiet, pattern)


def _piped(sandbox: Sandbox, stored: Stored, pattern: str) -> Verdict:
    quiet = _bits_of(sandbox, stored)
    path = _place(sandbox, stored, pattern)
    path.unlink()
    os.mkfifo(path)
    commands = _commands(sandbox, stored)
    ended = sandbox.starter.run(commands, watched=sandbox.at, timeout_s=PIPE_TIMEOUT_S)
    if wrong := fault_of(ended):
        return broken(wrong)
    return _refused_or_equal(stored, sandbox, ended, quiet, pattern)


def _refused_or_equal(
    stored: Stored, sandbox: Sandbox, ended: Ended, quiet: dict, pattern: str
) -> Verdict:
    last = ended.commands[-1]
    if last.status == 0:
        return same(stored.subject, sandbox.at, last, quiet)
    if str(sandbox.at) in "".join(last.err.split()) or names(last.err, (pattern,)):
        return Verdict("named")
    return broken(f"refused, but not by name: {last.err.strip()[-300:]}")


# -- addresses ---------------------------------------------------------------------------------

HOST = "192.0.2.1"  # of a net that is kept for documentation: nobody is there
ADDRESSES = (
    f"dask://{HOST}:8786/x::file:///etc",
    f"reference::http://{HOST}/x.json",
    f"simplecache::http://{HOST}/x",
    f"filecache::ftp://{HOST}/x",
    f"zip://x::http://{HOST}/x.zip",
    f"ftp://{HOST}/x",
    f"sftp://{HOST}/x",
    f"smb://{HOST}/x",
    f"webhdfs://{HOST}:9870/x",
    f"jupyter://{HOST}:8888/x",
    "github://some:body@main/x",
    "git:///etc::file:///etc",
    "python://os:system",
)


def addresses(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Addresses in a run's record, in a configuration and on the command line."""
    place, make = REACHES[name]
    for address in ADDRESSES:
        yield Case("P8", f"address in {place}", address.partition(":")[0], address,
                   lambda a=address: _reached(sandbox, make, a))  # fmt: skip


def _in_record(member: str, sandbox: Sandbox, address: str) -> list[list[str]]:
    STORED["killed run: asgd"].restore(sandbox, 0)
    path = sandbox.at / "run" / "run.json"
    document, sealed = hostile.read(path)
    document["plan"][member] = address
    hostile.write(path, json.dumps(document, separators=(",", ":")).encode(), sealed=sealed)
    resume = SUBJECTS["asgd"].command(sandbox.at, resume=True)
    return [["inspect", f"{sandbox.at}/run"], ["report", f"{sandbox.at}/run"], resume]


def _in_config(member: str, sandbox: Sandbox, address: str) -> list[list[str]]:
    sandbox.before(SUBJECTS["asgd"])
    (sandbox.at / "plan.toml").write_text(f"{member} = {json.dumps(address)}\n")
    command = SUBJECTS["asgd"].command(sandbox.at)
    return [[*command, "--config", f"{sandbox.at}/plan.toml"]]


def _as_argument(sandbox: Sandbox, address: str) -> list[list[str]]:
    sandbox.before(SUBJECTS["asgd"])
    return [
        ["inspect", address],
        ["ingest", address, f"{sandbox.at}/new"],
        ["train", address, f"{sandbox.at}/new", "--scheduler", "none"],
        ["resume", address, "--scheduler", "none"],
    ]


REACHES: dict[str, tuple[str, Callable[[Sandbox, str], list[list[str]]]]] = {
    "dataset of a record": ("a run's record", partial(_in_record, "dataset")),
    "start_from of a record": ("a run's record", partial(_in_record, "start_from")),
    "start_from of a plan": ("a configuration", partial(_in_config, "start_from")),
    "held_out of a plan": ("a configuration", partial(_in_config, "held_out")),
    "argument": ("a command", _as_argument),
}


def _reached(
    sandbox: Sandbox, make: Callable[[Sandbox, str], list[list[str]]], address: str
) -> Verdict:
    sandbox.quiet(SUBJECTS["asgd"])
    ended = sandbox.starter.run(make(sandbox, address), watched=sandbox.at)
    if wrong := fault_of(ended):
        return broken(wrong)
    last = ended.commands[-1]
    if last.status == 0:  # nothing was left to be read from there
        return same(SUBJECTS["asgd"], sandbox.at, last, sandbox.quiet(SUBJECTS["asgd"]).bits)
    return Verdict("refused")


# -- secrets -----------------------------------------------------------------------------------

SECRETS = ("hunter2", "t0ken")


class _Server(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve a folder on 127.0.0.1; yields the port."""
    handler = partial(_Server, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def secrets(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """A password and a token in an address, of commands that succeed and that fail."""
    for path in ("rows.svm", "bad.svm", "missing.svm"):
        yield Case("P9", name, f"{name} from an address with a secret", path,
                   lambda p=path: _secretive(sandbox, name, p))  # fmt: skip


SECRETIVE = ("ingest", "predict", "train", "resume", "inspect")


def _secretive(sandbox: Sandbox, name: str, path: str) -> Verdict:
    subject = SUBJECTS["asgd"]
    sandbox.finished(subject)
    served = sandbox.root / "served"
    served.mkdir(exist_ok=True)
    write_libsvm(served / "rows.svm", d=12, nnz=4)
    (served / "bad.svm").write_text("1 1:1\n1 2:x\n")
    with serving(served) as port:
        address = f"http://somebody:{SECRETS[0]}@127.0.0.1:{port}/{path}?token={SECRETS[1]}"
        new, run = f"{sandbox.at}/new", f"{sandbox.at}/run"
        commands = {
            "ingest": [["ingest", address, new, "--memory", "128MB"], ["inspect", new],
                       ["train", new, f"{new}-run", "--scheduler", "none", "--json"],
                       ["report", f"{new}-run"]],
            "predict": [["predict", run, address, f"{sandbox.at}/out.csv"]],
            "train": [["train", address, new, "--scheduler", "none"]],
            "resume": [["resume", address, "--scheduler", "none"]],
            "inspect": [["inspect", address], ["check", address]],
        }[name]  # fmt: skip
        ended = sandbox.starter.run(commands, watched=sandbox.at)
    if wrong := fault_of(ended):
        return broken(wrong)
    texts = {"output": ended.text} | {
        str(p.relative_to(sandbox.at)): p.read_text(errors="replace")
        for p in sandbox.at.rglob("*")
        if p.is_file()
    }
    told = [where for where, text in texts.items() if any(s in text for s in SECRETS)]
    return broken(f"the secret is in {told}") if told else Verdict("harmless")


# -- ports -------------------------------------------------------------------------------------

WAYS = {
    "train on threads": ("--threads", "2", "--scheduler", "local"),
    "train on two workers": ("--workers", "2", "--threads", "1"),
    "train without Dask": ("--scheduler", "none"),
    "train over TLS": ("--workers", "1", "--threads", "1", "--encrypt"),
    "dashboard": (),
}
LOOK_S = 60.0


def ports(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every socket that a way of running listens on."""
    yield Case("P10", name, "looked at", name, lambda: _listened(sandbox, name))


def _listened(sandbox: Sandbox, name: str) -> Verdict:
    subject = SUBJECTS["asgd"]
    if name == "dashboard":
        sandbox.finished(subject)
        command = ["dashboard", f"{sandbox.at}/run"]
    else:
        sandbox.before(subject)
        begin = [w for w in subject.command(sandbox.at) if w not in ("--scheduler", "none")]
        command = [*begin, *WAYS[name]]
    found: set[str] = set()
    endless = name == "dashboard"
    ended = sandbox.run(command, {"trusted": True}, timeout_s=LOOK_S + 1.0,
                     meanwhile=lambda pid: _look(pid, found, endless=endless))  # fmt: skip
    if not endless and (wrong := fault_of(ended)):
        return broken(wrong)
    open_ = sorted(ip for ip in found if ip not in ("127.0.0.1", "::1"))
    if open_:
        return broken(f"it listens on {open_}")
    if not found and name != "train without Dask":
        return broken(f"it listens nowhere: {ended.text[-200:]}")
    return Verdict("harmless")


def _look(pid: int, found: set[str], *, endless: bool) -> None:
    """Note the addresses that a process listens on; an endless one ends a second after the first."""
    until = time.monotonic() + patience(LOOK_S)
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        while process.is_running() and time.monotonic() < until:
            before = bool(found)
            for one in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    every = one.net_connections(kind="inet")
                    found |= {c.laddr.ip for c in every if c.status == psutil.CONN_LISTEN}
            if endless and found and not before:
                until = time.monotonic() + 1.0
            time.sleep(0.02)
        if endless:
            process.kill()
