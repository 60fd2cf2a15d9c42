"""Pictures of what the real Prefect UI shows of a training, to be looked at.

    python -m benchmarks.ui_screenshots FOLDER [--chromium PROGRAM]

Starts a Prefect server on a port of its own, runs the flow `train` on a small data set, and has a
headless Chromium draw the page of the run and of every artifact into FOLDER.  Fails when a page
does not show what the artifact holds.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from testing.datasets import make
from testing.prefect_server import Server, run, stop

#: What a reader must find on the page, by the end of an artifact's key.
EXPECTED = {
    "progress": "100", "convergence": "at most above optimum", "loss": "data:image/png",
    "above-optimum": "data:image/png", "card": "Certificate",
}  # fmt: skip
WAIT_MS = 15_000  # of the browser's own clock, for the pages to load what they show


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--chromium", default="chromium")
    chosen = options.parse_args()
    if shutil.which(chosen.chromium) is None:
        sys.exit(f"There is no {chosen.chromium}. Name one with --chromium.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        server = Server(home)
        server.environment["PREFECT_UI_API_URL"] = server.url
        server.start()
        try:
            missing = draw_all(server, trained(server, Path(home)), chosen)
        finally:
            stop(server.process)
    sys.exit(f"Not shown: {', '.join(missing)}" if missing else 0)


def trained(server: Server, home: Path) -> dict[str, Any]:
    """Run the flow to its end; what the server knows of it."""
    data = make(home / "clicks", n=20000, d=40, chunk_rows=200).folder.url
    done = run(
        server.environment, "train", dataset=data, run=home / "model", tol="1e-6",
        solver__kind="s2gd+", scheduler="none",
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr)
    found: dict[str, Any] = server.run_of("/model")
    return found


def draw_all(server: Server, flow_run: dict[str, Any], chosen: argparse.Namespace) -> list[str]:
    """Draw every page; the names of those on which something is missing."""
    root = server.url.removesuffix("/api")
    pages = {"run": (f"{root}/runs/flow-run/{flow_run['id']}", "Completed")}
    for key, artifact in server.artifacts(flow_run).items():
        name = next(name for name in EXPECTED if key.endswith(name))
        pages[name] = (f"{root}/artifacts/artifact/{artifact['id']}", EXPECTED[name])
    missing = [f"the artifact {name}" for name in EXPECTED if name not in pages]
    for name, (url, expected) in pages.items():
        picture = chosen.folder / f"{name}.png"
        browse(chosen.chromium, url, f"--screenshot={picture}")
        shown = expected in browse(chosen.chromium, url, "--dump-dom")
        print(f"{picture}: {'shows' if shown else 'LACKS'} {expected!r}")
        missing += [] if shown else [name]
    return missing


def browse(chromium: str, url: str, what: str) -> str:
    """Open a page and return what Chromium prints."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    command = [chromium, *flags, f"--virtual-time-budget={WAIT_MS}", what, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


if __name__ == "__main__":
    main()
