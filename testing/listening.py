"""Which sockets of a process, and of those that it started, others may connect to."""

import contextlib

import psutil

LOOPBACK = {"127.0.0.1", "::1"}


def listening(pid: int) -> set[tuple[str, int]]:
    """(address, port) of every socket that a process or a child of it listens on."""
    found = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                sockets = one.net_connections("inet")
                found |= {tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN}
    return found
