"""What `--help` says: each command opens with examples, and each example is one."""

import shlex

import pytest
import typer

from zoo.cli.app import app


def commands(group, words=()):
    """Give the words of every command, and the command."""
    context = group.make_context("zoo", ["nothing"], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS)
def test_help_opens_with_examples(words):
    _, examples, *rest = [*COMMANDS[words].help.split("\n\n")]
    for line in examples.splitlines():
        assert len(line) < 80 and line.startswith(f"zoo {words}")
        given = shlex.split(line.partition(" > ")[0])[1 + len(words.split()) :]
        COMMANDS[words].make_context(words, given)
    assert not any("\n" in each for each in rest), "wrapped by the terminal, not by the source"
