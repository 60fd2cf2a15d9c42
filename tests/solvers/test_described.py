"""What stands under a field of settings is its description."""

import pytest
from pydantic import Field, ValidationError

from fewpass.solvers.bad_input import BadInput
from fewpass.solvers.described import Described, described_fields


class Base(Described):
    steps: int = 1
    """How many steps
        are taken."""
    silent: int = 2
    told: int = Field(3, description="Told by itself.")
    """Not this."""


class Wider(Base):
    """The text of a class is no field's."""

    width: float = 0.5
    """How wide it is."""
    silent: int = 4
    """Silent no more."""


def test_what_stands_under_a_field_describes_it_in_schemas_too():
    said = {name: field.description for name, field in described_fields(Base).items()}
    assert said == {"steps": "How many steps\nare taken.", "silent": None, "told": said["told"]}
    assert said["told"] == "Told by itself."
    schema = Base.model_json_schema()["properties"]
    assert {name: each.get("description") for name, each in schema.items()} == said


def test_fields_that_are_inherited_keep_their_description():
    said = {name: field.description for name, field in described_fields(Wider).items()}
    assert said["steps"] == described_fields(Base)["steps"].description
    assert (said["width"], said["silent"]) == ("How wide it is.", "Silent no more.")
    assert described_fields(Base)["silent"].description is None


def test_settings_do_not_change_and_unknown_ones_are_refused():
    with pytest.raises(ValidationError, match="frozen"):
        Wider().width = 2.0
    with pytest.raises(BadInput, match=r'no setting "wide"\. Did you mean width\?'):
        Wider(wide=1.0)


def test_a_class_whose_source_is_nowhere_has_no_descriptions():
    made = {"__name__": "nowhere", "Described": Described}
    exec("class Lost(Described):\n    a: int = 1\n    'Said.'\n", made)
    assert described_fields(made["Lost"])["a"].description is None
    assert made["Lost"]().a == 1
