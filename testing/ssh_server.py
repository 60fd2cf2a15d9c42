"""An SSH server on the loopback interface: runs what it is told by whoever has the key.

    python -m testing.ssh_server FOLDER

It writes FOLDER/key, prints its port, and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncssh


async def run(process: Any) -> None:
    """Run a command in a session of its own, which ends with the connection."""
    child = await asyncio.create_subprocess_shell(
        process.command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        while line := await child.stdout.readline():
            process.stderr.write(line.decode())
        process.exit(await child.wait())
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)


async def serve(folder: Path) -> None:
    """Serve until the process is killed."""
    host, own = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    own.write_private_key(folder / "key")
    own.write_public_key(folder / "authorized")
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[host], process_factory=run,
        authorized_client_keys=str(folder / "authorized"),
    )  # fmt: skip
    print(server.get_port(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
