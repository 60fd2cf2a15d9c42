"""Pictures of what the real Prefect UI shows of a refresh, for docs/operations.md.

    python -m benchmarks.ui_screenshots docs/figures [--chromium PROGRAM]

Starts a Prefect server on a port of its own, runs the flow `refresh` on three nights of visits to a
shop, and has a headless Chromium draw the page of the third run and of its artifacts into a
folder, as prefect-NAME.png.  Fails when a page does not show what the artifact holds.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fewpass.pipeline.clicks import write_visits
from testing.prefect_server import Server, run, stop

#: What a reader must find on the page of an artifact, by the end of its key.
EXPECTED = {
    "slices": "log loss, published before", "columns": "became", "beside": "not told apart",
    "card": "certificate",
}  # fmt: skip
NIGHTS = {"monday": 4000, "tuesday": 6000, "wednesday": 6000}  # their rows
WAIT_MS = 15_000  # of the browser's own clock, for the pages to load what they show


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--chromium", default="chromium")
    chosen = options.parse_args()
    if shutil.which(chosen.chromium) is None:
        sys.exit(f"There is no {chosen.chromium}. Name one with --chromium.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shop-", dir="/tmp") as home:  # the pages show it
        server = Server(home)
        server.environment["PREFECT_UI_API_URL"] = server.url
        server.start()
        try:
            missing = draw_all(server, refreshed(server, Path(home)), chosen)
        finally:
            stop(server.process)
    sys.exit(f"Not shown: {', '.join(missing)}" if missing else 0)


def refreshed(server: Server, home: Path) -> dict[str, Any]:
    """Refresh after each of three nights; what the server knows of the third run."""
    (home / "inbox").mkdir()
    first = 0
    for name, rows in NIGHTS.items():
        write_visits(home / f"inbox/{name}.csv", rows, first=first)
        first += rows
        done = run(
            server.environment, "refresh", sources=home / "inbox/*.csv", store=home / "store",
            label="bought", training__tol="1e-4", scheduler="none",
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(done.stderr)
    (found,) = server.ask("flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 1})
    flow_run: dict[str, Any] = found
    return flow_run


def draw_all(server: Server, flow_run: dict[str, Any], chosen: argparse.Namespace) -> list[str]:
    """Draw every page; the names of those on which something is missing."""
    root = server.url.removesuffix("/api")
    pages = {}
    for key, artifact in server.artifacts(flow_run).items():
        name = next((name for name in EXPECTED if key.endswith(f"-{name}")), None)
        if name and EXPECTED[name] in str(artifact["data"]):
            pages[name] = (f"{root}/artifacts/artifact/{artifact['id']}", EXPECTED[name])
    pages["run"] = (f"{root}/runs/flow-run/{flow_run['id']}", "Completed")
    missing = [f"the artifact {name}" for name in EXPECTED if name not in pages]
    for name, (url, expected) in pages.items():
        picture = chosen.folder / f"prefect-{name}.png"
        browse(chosen.chromium, url, f"--screenshot={picture}")
        shown = expected in browse(chosen.chromium, url, "--dump-dom")
        print(f"{picture}: {'shows' if shown else 'LACKS'} {expected!r}")
        missing += [] if shown else [name]
    return missing


def browse(chromium: str, url: str, what: str) -> str:
    """Open a page and return what Chromium prints."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    command = [chromium, *flags, f"--virtual-time-budget={WAIT_MS}", what, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout


if __name__ == "__main__":
    main()
