"""Base of models of settings: counts within reason, and no secrets in errors."""

from typing import Annotated

from pydantic import ConfigDict, Field

#: Their messages quote no values, in which secrets may be.
ADDRESSED = ConfigDict(hide_input_in_errors=True)

#: Threads, processes or parts of the data that may work at the same time, on any machine.
MOST_WORKERS = 1024
Workers = Annotated[int, Field(ge=1, le=MOST_WORKERS)]
