"""What is closed or full where a command reads or tells something: a sentence, and no traceback."""

import errno
import os
import subprocess
import sys

import pytest

from fewpass.flows.beginning import FIRST_BYTES
from fewpass.flows.cli import main
from fewpass.pipeline.compiling_ahead import warm_up
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes import semaphores
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.scoring.prediction_files import open_predictions
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.tables.readers import open_source

COMMAND = "from fewpass.flows.cli import command_line; command_line()"


def run(tmp_path, words, closed):
    """Run a command with some streams closed; return its status and what it told."""
    line = f'exec "$0" -c "$1" {words} {closed}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, COMMAND],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "closed", "status", "said"),
    [
        ("methods", ">&-", 2, "Standard output is closed, and the command prints"),
        ("methods", "<&- >&- 2>&-", 2, ""),
        ("--version", "<&- 2>&-", 0, ""),
        ("methods", ">/dev/full", 1, "No space left on device"),
        ("methods --json", ">/dev/full", 1, "No space left on device"),
        ("ingest - made", "<&-", 2, "Standard input is closed, and rows were expected there"),
        ("inspect nothing", "2>/dev/full", 2, ""),
    ],
)
def test_a_closed_stream_is_told_in_a_sentence(tmp_path, words, closed, status, said):
    found, _, err = run(tmp_path, words, closed)
    assert found == status, err
    assert said in err
    assert "Traceback" not in err
    assert "should not have happened" not in err


def test_a_name_in_another_script_is_shown_where_an_encoding_lacks_it(tmp_path):
    (tmp_path / "数据").mkdir()
    (tmp_path / "数据" / "manifest.json").write_bytes(FIRST_BYTES)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], cwd=tmp_path, env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"fewpass train '\u6570\u636e'" in done.stdout


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path):
    """Whatever a library tells on number 2 would go into the user's file."""
    code = (
        "import os; from fewpass.flows.display.printing import fill_closed_streams as fill; fill(); "
        "os.write(3, str(os.open('made', os.O_CREAT | os.O_WRONLY)).encode())"
    )
    subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&- 3>told', sys.executable, code],
        cwd=tmp_path, timeout=120, check=True,
    )  # fmt: skip
    assert int((tmp_path / "told").read_text()) > 2


def test_from_python_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadInput, match="Standard input is closed"):
        open_source(["-"])
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(BadInput, match="Standard output is closed"):
        open_predictions("-", ["label"]).__enter__()


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOENT, errno.EACCES, errno.ENOSYS])
def test_no_semaphores_no_processes(monkeypatch, tmp_path, capsys, number):
    """As where /dev/shm is missing or may not be written to."""

    class Without:
        def Lock(self):  # noqa: N802 - multiprocessing's word
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(semaphores, "get_context", lambda _: Without())
    with pytest.raises(BadInput, match=rf"/dev/shm.*{os.strerror(number)}.*leave `workers` out"):
        open_executor(Execution(workers=2)).__enter__()
    with pytest.raises(BadInput, match="when they are first needed"):
        warm_up()
    assert main(["warm-up"]) == 2
    assert "/dev/shm" in capsys.readouterr().err
