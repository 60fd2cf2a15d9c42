"""A real PostgreSQL of this machine, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Where Debian and others have the programs of a server; the newest comes last.
_PLACES = ("/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb")


def programs() -> Path | None:
    """The folder of the server's programs; None where there is none."""
    found = [path for place in _PLACES for path in sorted(Path("/").glob(place[1:]))]
    named = shutil.which("initdb")
    return found[-1].parent if found else Path(named).parent if named else None


@contextmanager
def postgres_server() -> Iterator[str]:
    """Serve an empty database during a `with` block, by a socket in a folder; yields its address.

    The server refuses to be root's: then it belongs to the user whom the package made for it.
    """
    place = programs()
    if place is None:
        raise FileNotFoundError("There is no PostgreSQL. Install it: apt-get install postgresql.")
    owner = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="pg-")
    quiet = {"cwd": folder, "check": True, "capture_output": True, "timeout": 120} | owner
    try:
        if owner:
            shutil.chown(folder, **owner)
        data = f"{folder}/data"
        subprocess.run([place / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-N"], **quiet)
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=20"
        ctl = [place / "pg_ctl", "-D", data, "-s", "-w"]
        subprocess.run([*ctl, "-o", options, "-l", f"{folder}/log", "start"], **quiet)
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            subprocess.run([*ctl, "-m", "immediate", "stop"], **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
