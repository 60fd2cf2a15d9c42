"""Tables of Delta Lake that predictions are put into, by delta-rs (the library deltalake)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring.output_table import BATCH_ROWS, OutputTable, Replaced, WaitingRows
from fewpass.pipeline.tables.readers.library_errors import quoted
from fewpass.pipeline.tables.readers.table_files import store_settings
from fewpass.storage.addresses import local_path, open_store, require_no_secrets

_TABLE = "predictions"  # what it is called in a query


class DeltaOutput(OutputTable):
    """A table of Delta Lake: a version more of it has all of the rows."""

    kind: ClassVar[str] = "Delta Lake"

    def columns(self) -> Sequence[str] | None:
        with self._asked():
            table = self._newest()
            return None if table is None else _schema_of(table).names

    def scored(self) -> set[tuple[str, str | None]]:
        with self._asked():
            table = self._newest()
            if table is None:
                return set()
            from deltalake import QueryBuilder  # noqa: PLC0415 - an extra

            query = f"SELECT DISTINCT source, source_version FROM {_TABLE}"  # noqa: S608
            listed = pa.table(QueryBuilder().register(_TABLE, table).execute(query))
        return set(zip(*(column.to_pylist() for column in listed.columns), strict=True))

    def put(self, rows: WaitingRows, replaced: Replaced | None) -> None:
        with self._asked():
            from deltalake import WriterProperties, write_deltalake  # noqa: PLC0415 - an extra

            small = WriterProperties(max_row_group_size=4 * BATCH_ROWS)  # which it has in memory
            table, reader = self._newest(), rows.reader()
            if table is None:
                place, options = self._place()
                write_deltalake(
                    place, reader, mode="append", storage_options=options, writer_properties=small
                )
                return
            schema = _schema_of(table)
            self.require_columns(schema.names, reader.schema.names)
            stored = pa.RecordBatchReader.from_batches(schema, _typed(reader, schema))
            where = None if replaced is None else " OR ".join(replaced.conditions())
            write_deltalake(
                table, stored, mode="overwrite", predicate=where, writer_properties=small
            )

    def _place(self) -> tuple[str, dict[str, str] | None]:
        """Return the table's path or address, and options of its store."""
        if (here := local_path(self.url)) is not None:
            return str(here), None
        store, path = open_store(require_no_secrets(self.url), writing=True)
        return str(store.unstrip_protocol(path)), store_settings(store) or None

    def _newest(self) -> Any:
        """Return the newest version of the table; None where there is no table yet."""
        from deltalake import DeltaTable, exceptions  # noqa: PLC0415 - an extra

        place, options = self._place()
        try:  # to ask first would keep all other threads waiting
            return DeltaTable(place, storage_options=options)
        except exceptions.TableNotFoundError:
            return None

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Say what the library has against it; OSError where it may go well the next time."""
        try:
            from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415
        except ImportError as error:
            raise BadInput(
                f"{self.shown} needs deltalake, which is not installed. Install it with pip "
                "install 'fewpass[delta]'."
            ) from error
        said = f"{self.shown}: the table stays as it was"
        try:
            yield
        except CommitFailedError as error:  # somebody else has written there meanwhile
            raise OSError(f"{said} ({quoted(error)}). Give the same command again.") from error
        except DeltaError as error:
            raise BadInput(f"{said} ({quoted(error)}). Check the table and its types.") from error


def _schema_of(table: Any) -> Any:
    return pa.schema(table.schema())


def _typed(batches: Any, schema: Any) -> Iterator[Any]:
    """Yield batches with the columns and types of a table."""
    for batch in batches:
        cells = [batch.column(field.name).cast(field.type) for field in schema]
        yield pa.record_batch(cells, schema=schema)
