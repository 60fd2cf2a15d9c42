"""Tolerances, named once, and what more than one test file needs."""

import gc
import json
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from fewpass.flows import cli
from testing.prefect_server import migrated_database
from testing.process_state import all_put_back

#: The same operations in the same order: equal bits, compared with ==.
EXACT = 0.0
#: The same sums in another order, relative.
ROUNDING = 1e-12
#: A method run to its end: objective above the optimum, relative to max(1, |objective|).
CONVERGED = 1e-8
#: One pass: factor by which an excess may differ from the published one (other permutations).
STOCHASTIC = 2.0

settings.register_profile("fewpass", max_examples=50, deadline=None, derandomize=True)
settings.load_profile("fewpass")

PROJECT = Path(__file__).parents[1]

#: Files that share one Prefect server and one process of flows; test_deployments.py kills its own.
ONE_SERVER = (
    "test_notifications.py",
    "test_operations_page.py",
    "test_pages.py",
    "test_prefect_flows.py",
    "test_refresh_page.py",
)
#: What takes a minute or more begins first, so that no process is left with it at the end.
LONG = (
    "test_deployments.py",
    *ONE_SERVER,
    "test_promises.py",
    "test_one_answer.py",
    "test_memory.py",
    "test_pages_of_commands.py",
    "test_dask_cluster.py",
    "test_stores.py",
    "test_interrupts.py",
    "test_extending.py",
)
#: Folders whose tests wait for programs that they start: the others compute meanwhile.
WAITING = ("benchmarks", "docs", "faults", "flows")


@pytest.fixture(autouse=True, scope="module")
def as_before_the_file():
    with all_put_back():
        yield


@pytest.fixture(autouse=True)
def as_before_the_test():
    with all_put_back():
        yield


def pytest_addoption(parser):
    parser.addoption("--order", help="any text: a random order of tests, for this text the same")


def pytest_report_header(config):
    return (seed := config.getoption("order")) and f"Tests in a random order: --order {seed}"


def pytest_configure():
    """Signals are as in a terminal: in the background Ctrl-C is ignored, by what is started, too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # until all is loaded: modules and tests are no garbage


@pytest.hookimpl(optionalhook=True)  # without xdist there is no such hook
def pytest_xdist_make_scheduler(config, log):
    """File by file, and those of one server to the same process."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrServer(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "server" if file.endswith(ONE_SERVER) else file

    return ByFileOrServer(config, log) if config.getoption("dist") == "loadfile" else None


def turns(items):
    """When the tests of each file come: the long ones, then what waits and what computes in turn."""
    files = dict.fromkeys(item.path for item in items)
    here = PROJECT / "tests"
    waiting = [
        f for f in files if f.is_relative_to(here) and f.relative_to(here).parts[0] in WAITING
    ]
    computing = [f for f in files if f not in waiting]
    found = {f: 1.0 + k / len(of) for of in (waiting, computing) for k, f in enumerate(of)}
    return found | {f: LONG.index(f.name) / len(LONG) for f in files if f.name in LONG}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if seed := config.getoption("order"):
        random.Random(seed).shuffle(items)
    turn = turns(items)
    items.sort(key=lambda item: turn[item.path])
    if not os.environ.get(DATA_VARIABLE):
        left_out = [item for item in items if item.get_closest_marker("public_data")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish():
    """Spare what takes time and proves nothing, now that all libraries are loaded."""
    gc.freeze()  # thousands of tests need not be looked through for any
    gc.enable()
    gc.set_threshold(50_000, 20, 50)
    threadpool_limits(1)  # BLAS spins for milliseconds after each sum, in the way of other tests


def pytest_terminal_summary(terminalreporter):
    if not os.environ.get(DATA_VARIABLE):
        terminalreporter.write_line(
            f"Left out: tests of larger public data sets, as {DATA_VARIABLE} names no folder with "
            "them (tests/data/README.md)."
        )


@pytest.fixture
def rng():
    return np.random.default_rng(20240517)


#: Names the folder of the larger public data sets; tests/data/README.md says which.
DATA_VARIABLE = "FEWPASS_DATA"
SMALL_DATA = PROJECT / "tests/data"


@pytest.fixture(scope="session")
def data_file():
    """Path of real data by its name: in tests/data, else among the public sets, or a failure."""

    def path_of(name):
        folder = os.environ.get(DATA_VARIABLE)
        places = [SMALL_DATA / name, *([Path(folder).resolve() / name] if folder else [])]
        found = next((place for place in places if place.exists()), None)
        assert found, f"{name} is in none of {[str(p) for p in places]}: see tests/data/README.md"
        return found

    return path_of


@pytest.fixture
def fewpass(capsys):
    """Run a command: (exit status, standard output, standard error)."""

    def run(*arguments):
        status = cli.main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def as_json(fewpass):
    """Run a command that must succeed, with --json: the one object that it prints."""

    def run(*arguments):
        status, out, err = fewpass(*arguments, "--json")
        assert status == 0, err
        assert out.count("\n") == 1
        return json.loads(out)

    return run


@pytest.fixture(scope="session")
def prefect_database(tmp_path_factory):
    """Prefect's database as it is at first, made once for all processes of the suite."""
    own = tmp_path_factory.getbasetemp()
    return migrated_database(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)
