"""docs/coming-from.md: both sides of its jobs of Vowpal Wabbit and Spark, on rows made here.

    .venv-peers/bin/python -m benchmarks.coming_from

Runs the page's own commands and code, and prints the mean logistic loss of each side on the rows
that it predicts.  Spark needs Java and the package pyspark; without them it is said to be left out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from fewpass.flows import cli

PAGE = Path(__file__).parents[1] / "docs/coming-from.md"
DEMO = Path("demo-output")  # where the page finds what `make demo` leaves; other rows here


def main() -> None:
    """Run both jobs in a folder of their own."""
    page = PAGE.read_text(encoding="utf-8")
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            vowpal_wabbit(section(page, "Vowpal Wabbit"))
            if importlib.util.find_spec("pyspark") and shutil.which("java"):
                spark(section(page, "Spark"))
            else:
                print("Spark: left out, as pyspark or Java is not installed")
        finally:
            os.chdir(home)


def section(page: str, title: str) -> str:
    """Return the text below one heading."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def vowpal_wabbit(text: str) -> None:
    """Words as columns, clicked or not: 20,000 rows."""
    rng = np.random.default_rng(0)
    word = rng.zipf(1.5, (20_000, 8)) % 1000
    clicked = rng.random(len(word)) < chance(rng.standard_normal(1000)[word].sum(axis=1) / 2)
    lines = (f"{1 if c else -1} |w {' '.join(f'w{w}' for w in row)}\n"
             for c, row in zip(clicked, word, strict=True))  # fmt: skip
    DEMO.mkdir(exist_ok=True)
    (DEMO / "ads.vw").write_text("".join(lines), encoding="utf-8")
    for command in re.findall(r"^vw (.*)$", text, re.MULTILINE):
        wabbit = [sys.executable, "-m", "vowpalwabbit", *shlex.split(command), "--quiet"]
        subprocess.run(wabbit, check=True)
    run_ours(text)
    theirs = pd.read_csv("ads.txt", header=None, sep=" ")[0]
    tell("Vowpal Wabbit", theirs, pd.read_csv("ads.csv")["probability"], clicked)


def spark(text: str) -> None:
    """Two numbers, bought or not: 20,000 rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 2))
    bought = rng.random(len(x)) < chance(x @ [1.0, -0.5])
    people = {"age": 40 + 10 * x[:, 0], "income": 3e4 + 1e4 * x[:, 1], "bought": bought.astype(int)}
    DEMO.mkdir(exist_ok=True)
    pd.DataFrame(people).to_parquet(DEMO / "people.parquet")
    (code,) = re.findall(r"With Spark:\n\n```\n(.*?)```", text, re.DOTALL)
    alone = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}  # no port but on this machine
    subprocess.run([sys.executable, "-c", code], check=True, env=alone)
    run_ours(text)
    theirs = pd.read_parquet("scores")
    tell("Spark", theirs["yes"], pd.read_parquet("scores.parquet")["probability"], bought)


def run_ours(text: str) -> None:
    """Run the section's fewpass commands."""
    for command in re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE):
        status = cli.main([*shlex.split(command), "--quiet"])
        if status != 0:
            sys.exit(f"fewpass {command}: status {status}")


def chance(logit: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-logit))."""
    return 1.0 / (1.0 + np.exp(-logit))


def tell(name: str, theirs: pd.Series, ours: pd.Series, true: np.ndarray) -> None:
    """Print the mean logistic loss of both sides."""
    losses = [-np.log(np.where(true, p, 1 - p)).mean() for p in (theirs, ours)]
    furthest = np.abs(theirs.to_numpy() - ours.to_numpy()).max()
    print(f"{name}: mean logistic loss {losses[0]:.4f}, fewpass {losses[1]:.4f}; "
          f"probabilities differ by {furthest:.1g} at most")  # fmt: skip


if __name__ == "__main__":
    main()
