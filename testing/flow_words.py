"""`prefect run` in a shell script, done by a process that runs flows: its imports take five seconds."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from testing.prefect_server import FlowRunner

#: What a script begins with; the program itself is there for all that runs no flow.
SHIM = """
prefect() {
  if [ "$1" != run ]; then command prefect "$@"; return; fi
  printf '%s\\n' "$PWD" "${@:2}" > "$FLOWS/asked"
  read -r status < "$FLOWS/told"
  cat "$FLOWS/said"
  return "$status"
}
"""


@contextlib.contextmanager
def flows_of_scripts(folder: Path, runner: FlowRunner) -> Iterator[dict[str, str]]:
    """Do what scripts ask for while the block lasts; what they need in their environment."""
    for name in ("asked", "told"):
        os.mkfifo(folder / name)
    threading.Thread(target=_serve, args=(folder, runner), daemon=True).start()
    yield {"FLOWS": str(folder)}
    with contextlib.suppress(OSError):  # nobody listens where a flow came to no end
        end = os.open(folder / "asked", os.O_WRONLY | os.O_NONBLOCK)
        os.write(end, b"\n")
        os.close(end)


def _serve(folder: Path, runner: FlowRunner) -> None:
    while asked := (folder / "asked").read_text().strip():
        place, flow, *words = asked.split("\n")
        status, out, err = runner.run_words(flow, [word for word in words if word != "-p"], place)
        (folder / "said").write_text(out + err)
        (folder / "told").write_text(f"{status}\n")
