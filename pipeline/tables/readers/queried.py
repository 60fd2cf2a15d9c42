"""Queries: what is one, and how a database is asked so that a signal ends it."""

# ruff: noqa: S608 - the query is the user's, who may run it anyway

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, TypeVar

from fewpass.pipeline.errors import BadInput

#: The name of a table, as SQL has it.
TABLE_NAME = re.compile(r'(?:\w+|"[^"]+")(?:\.(?:\w+|"[^"]+"))*')
_SELECT = re.compile(r"\s*(?:--[^\n]*\n\s*)*\(*\s*(?:select|with|values|table)\b", re.IGNORECASE)
_ASKED_AGAIN_S = 0.1  # to cancel what had not begun the first time
Answer = TypeVar("Answer")


def quoted_name(name: str) -> str:
    """Return the name of a column or a table as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def as_select(query: str | None, where: str) -> str:
    """Return a SELECT of the rows that a setting `query` names; BadInput where it is none."""
    if query is None:
        raise BadInput(
            f"{where} is a database. Say which of its rows: the name of a table, or a SELECT "
            "(`query`)."
        )
    text = query.strip().rstrip(";").rstrip()
    if TABLE_NAME.fullmatch(text):
        return f"SELECT * FROM {text}"
    if not _SELECT.match(text):
        raise BadInput(
            f"{where}: `query` is neither the name of a table nor a SELECT. Write for example "
            "'SELECT * FROM visits ORDER BY id'."
        )
    return text


def cancellable(ask: Callable[[], Answer], cancel: Callable[[], object] | None = None) -> Answer:
    """Ask a database in a thread, as Python handles no signal while its own waits for C code.

    A signal that ends the wait cancels the question. One that cannot be cancelled is left alone.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    Thread(target=work, name="fewpass-query", daemon=True).start()
    try:
        return answer.result()
    except BaseException:
        if cancel is None:
            answer.add_done_callback(_close)
        while cancel and wait([answer], _ASKED_AGAIN_S).not_done:
            cancel()
        raise


def _close(answer: Future[Any]) -> None:
    """Close what comes when nobody waits for it any more, such as a connection."""
    if answer.exception() is None and hasattr(answer.result(), "close"):
        answer.result().close()
