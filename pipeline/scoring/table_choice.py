"""Choice of the table for predictions, by its address and name; other outputs are files."""

from __future__ import annotations

from pathlib import PurePosixPath

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring.output_table import OutputTable
from fewpass.pipeline.scoring.prediction_files import STANDARD_OUTPUT, WRITERS
from fewpass.pipeline.settings.formats import DELTA_LOG, EXTENSIONS, server_format
from fewpass.storage.addresses import is_table_server, local_path, open_store
from fewpass.storage.kinds import inside_of_ours
from fewpass.storage.locations import Location, plain_errors
from fewpass.storage.redaction import shown_address

#: What a new table of Delta Lake ends in; one that is there is known by its log.
DELTA_ENDING = ".delta"
DELTA, POSTGRESQL, DUCKDB, SQLITE = "delta", "postgresql", "duckdb", "sqlite"
#: What a file of a database ends in.
_FILES = {".duckdb": DUCKDB} | {end: word for end, word in EXTENSIONS.items() if word == SQLITE}


def _classes() -> dict[str, type[OutputTable]]:
    """Return the class of each kind of table; with readers, which files do without."""
    from fewpass.pipeline.scoring import delta_output, sql_tables  # noqa: PLC0415

    return {
        DELTA: delta_output.DeltaOutput, POSTGRESQL: sql_tables.PostgresTable,
        DUCKDB: sql_tables.DuckdbTable, SQLITE: sql_tables.SqliteTable,
    }  # fmt: skip


def output_table(output: str, name: str | None) -> OutputTable | None:
    """Return the table that an output is; None where it is a file or a folder of files.

    Parameters
    ----------
    output
        A path or an address.
    name
        Of the table, where the output is a database.

    Raises
    ------
    BadInput
        A database without a table, a table without a database; a place that holds something else.
    """
    kind = _kind_of(output)
    if kind is None:
        if name is not None:
            raise BadInput(
                f"{shown_address(output)} is no database, so it has no table {name}. Name one "
                "(postgresql://..., .sqlite, .duckdb), or leave `table` out."
            )
        return None
    from fewpass.pipeline.tables.readers.databases import TABLE_NAME  # noqa: PLC0415 - as above

    if kind == DELTA:
        if name is not None:
            raise BadInput(
                f"{shown_address(output)} is a table itself (Delta Lake). Leave `table` out."
            )
    elif name is None or not TABLE_NAME.fullmatch(name):
        raise BadInput(
            f"{shown_address(output)} is a database, and predictions are put into one of its "
            "tables. Name that, as in `table=scores`."
        )
    if kind != POSTGRESQL:
        _require_free(output, is_folder=kind == DELTA)
    return _classes()[kind](output, name)


def _kind_of(output: str) -> str | None:
    if output == STANDARD_OUTPUT:
        return None
    if is_table_server(output):
        if server_format(output) != "postgresql":
            raise BadInput(f"{shown_address(output)} is read, not written. Name another output.")
        return POSTGRESQL
    ending = PurePosixPath(output).suffix
    if ending in _FILES:
        if local_path(output) is None:
            kind = _classes()[_FILES[ending]].kind
            raise BadInput(
                f"{shown_address(output)}: a file of {kind} is written on this machine only. "
                "Name a path."
            )
        return _FILES[ending]
    return DELTA if ending == DELTA_ENDING or _has_log(output, ending) else None


def _has_log(output: str, ending: str) -> bool:
    """Say whether a table of Delta Lake is there."""
    if (here := local_path(output)) is not None:
        return (here / DELTA_LOG).is_dir()
    if ending in WRITERS:
        return False
    store, path = open_store(output, writing=True)
    with plain_errors(output):
        return bool(store.exists(f"{path.rstrip('/')}/{DELTA_LOG}"))


def _require_free(output: str, *, is_folder: bool) -> None:
    """Refuse a place in a data set or a run, and one where something else is."""
    here = Location.of(output.rstrip("/"))
    if refusal := inside_of_ours(here):
        raise BadInput(refusal)
    if here.kind() not in (None, "folder" if is_folder else "file"):
        what = "no folder" if is_folder else "no file"
        raise BadInput(f"{shown_address(output)} is {what}. Choose another name.")
