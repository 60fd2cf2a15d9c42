"""What models of settings with addresses have in common."""

from pydantic import ConfigDict

#: Their messages quote no values, in which secrets may be.
ADDRESSED = ConfigDict(hide_input_in_errors=True)
