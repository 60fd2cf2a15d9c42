"""What all models of settings have in common."""

from pydantic import ConfigDict

#: Settings do not change, unknown ones are refused, and what is said of one stands under it.
SETTINGS = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)

#: The same, for settings with addresses: messages quote no values, in which secrets may be.
ADDRESSED = ConfigDict(**SETTINGS, hide_input_in_errors=True)
