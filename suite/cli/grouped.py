"""Options in groups: a command takes each group as one value, and its help has a panel for it.

A group is declared once, as a frozen dataclass whose fields are options, and several commands share
it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

from typer.models import OptionInfo


class Group:
    """Base of the groups."""

    PANEL: ClassVar[str]  # the heading of the options in the help

    @classmethod
    def parameters(cls) -> Iterator[inspect.Parameter]:
        """The options as parameters of a command."""
        hints = get_type_hints(cls, include_extras=True)
        for each in fields(cls):  # type: ignore[arg-type]
            yield inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=_in_panel(hints[each.name], cls.PANEL),
            )


def _in_panel(hint: Any, panel: str) -> Any:
    """The annotation of an option, with the panel of the help."""
    kind, option = get_args(hint)
    assert isinstance(option, OptionInfo)
    shown = copy(option)
    shown.rich_help_panel = panel
    return Annotated[kind, shown]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer takes it: with all options of its groups instead of the groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Group]] = {}
    parameters: list[inspect.Parameter] = []
    own_names: list[str] = []
    for each in inspect.signature(command).parameters.values():
        hint = hints[each.name]
        if isinstance(hint, type) and issubclass(hint, Group):
            groups[each.name] = hint
            parameters += hint.parameters()
        else:
            own = each.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            parameters.append(own)
            own_names.append(each.name)

    @wraps(command)
    def with_options(*arguments: Any, **values: Any) -> None:
        values |= dict(zip(own_names, arguments, strict=False))
        for name, group in groups.items():
            of_group = {
                each.name: values.pop(each.name, each.default)
                for each in fields(group)  # type: ignore[arg-type]
            }
            values[name] = group(**of_group)
        command(**values)

    del with_options.__wrapped__  # its signature is another one
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options
