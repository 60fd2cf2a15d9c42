"""A benchmark of several parts, all of them or some by name."""

import argparse
from collections.abc import Callable, Mapping


def run_parts(parts: Mapping[str, Callable[[], None]], description: str) -> None:
    """Run the parts that the command line names, or all."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    for name in parser.parse_args().only:
        parts[name]()
