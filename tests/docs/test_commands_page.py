"""The page of the commands: every command and every option of every command is on it."""

from fewpass.flows.declared_options import options_of
from fewpass.flows.listed_commands import COMMANDS, function_of
from website.commands_page import page


def test_every_command_and_every_option_is_on_the_page():
    made = page()
    assert not [words for words in COMMANDS if f"\n## {words}\n" not in made]
    options = {option.names[0] for words in COMMANDS for option in options_of(function_of(words))}
    assert len(options) > 50
    assert not [name for name in options if f"`{name}" not in made and f" {name}" not in made]
