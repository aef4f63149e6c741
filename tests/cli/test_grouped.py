"""Options in groups: one declaration for several commands, one value and one panel for each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from suite.cli import groups
from suite.cli.grouped import Group, grouped
from suite.cli.main import cli


@dataclass(frozen=True, kw_only=True)
class Paint(Group):
    PANEL = "Paint"

    color: Annotated[str, typer.Option("--color", help="Of the wall.")] = "white"
    coats: Annotated[int, typer.Option("--coats", help="How many.")] = 1


def called(*arguments: str) -> list[Any]:
    seen: list[Any] = []

    @grouped
    def paint(wall: Annotated[str, typer.Argument()], paint: Paint, fast: bool = False) -> None:
        """Paint a wall."""
        seen.extend((wall, paint, fast))

    app = typer.Typer()
    app.command()(paint)
    reply = CliRunner().invoke(app, arguments)
    assert reply.exit_code == 0, reply.output
    return seen or [reply.output]


def test_a_command_gets_a_group_as_one_value() -> None:
    assert called("north", "--coats", "2") == ["north", Paint(coats=2), False]
    assert called("north", "--color", "red", "--fast") == ["north", Paint(color="red"), True]


def test_the_help_has_a_panel_for_each_group() -> None:
    (text,) = called("--help")
    assert "Paint a wall." in text and "─ Paint ─" in text


@pytest.mark.parametrize("name", ["run", "parity", "convergence", "check-gpu", "peak", "resume"])
def test_the_options_of_commands_are_in_the_panels_of_their_groups(name: str) -> None:
    options = get_command(cli).commands[name].params  # type: ignore[attr-defined]
    panels = {each.name: each.rich_help_panel for each in options}
    all_groups = [each for each in vars(groups).values() if _is_group(each)]
    of_group = {each.name: group.PANEL for group in all_groups for each in fields(group)}
    in_panels = {key: panel for key, panel in panels.items() if panel}
    assert in_panels and in_panels.items() <= of_group.items()
    if name == "run":
        assert [key for key in panels if not panels[key]] == ["suite"]


def _is_group(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Group) and value is not Group
