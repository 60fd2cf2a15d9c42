"""Arrow reads CSV ahead in threads of its own: none reads on when its rows are not wanted any more."""

import io
import subprocess
import sys
import time
from weakref import ref

import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers import csv_batches
from fewpass.pipeline.tables.readers.csv_batches import CsvText, RowTooLong, batches
from fewpass.pipeline.tables.readers.csv_head import CsvLayout

BLOCK = 1 << 12
LAYOUT = CsvLayout(",", True, 2, (0, 1), ("",))


class SlowFile(io.BytesIO):
    """A file that notes whether it is being read."""

    is_read, n_reads = False, 0

    def read(self, n=-1):
        assert not self.closed
        self.is_read, self.n_reads = True, self.n_reads + 1
        time.sleep(0.02)
        self.is_read = False
        return super().read(n)


def rows_of(stream):
    return batches(CsvText(stream, b"", 0, LAYOUT, "slow.csv"), LAYOUT, BLOCK, 1, "slow.csv")


def left(rows):
    next(rows)
    rows.close()


def refused(rows):
    with pytest.raises((BadInput, RowTooLong)):
        list(rows)


@pytest.mark.parametrize("n", [0, BLOCK])
@pytest.mark.parametrize(
    ("row", "end"),
    [
        (b"1,2\n", left),
        (b"7" * 3 * BLOCK + b",2\n", refused),  # longer than a block
        (b'"7,2\n', refused),  # a quoted cell that is longer than a block
        (b"\xff,2\n", refused),
    ],
)
def test_arrow_has_nothing_of_a_file_whose_rows_have_ended(monkeypatch, row, end, n):
    lent = []
    add = csv_batches._Lent.add
    monkeypatch.setattr(
        csv_batches._Lent, "add", lambda self, one: (lent.append(ref(one)), add(self, one))
    )
    with SlowFile(b"1,2\n" * n + row + b"1,2\n" * (20 * BLOCK)) as stream:
        end(rows_of(stream))
        assert not stream.is_read
        n_reads = stream.n_reads
        time.sleep(0.1)
        assert stream.n_reads == n_reads < 80  # of 84
    assert lent
    assert [one() for one in lent] == [None] * len(lent)  # nor a block that it has to free


def test_a_process_ends_though_it_left_a_file_in_the_middle():
    code = (
        "from tests.pipeline.tables.readers.test_csv_reading_ahead import *;"
        'rows = rows_of(SlowFile(b"1,2\\n" * (20 * BLOCK))); next(rows)'
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
