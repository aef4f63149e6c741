"""The models: one file for each architecture, and a line here."""

from collections.abc import Callable

from suite.models.architecture import Architecture
from suite.models.lenet import lenet

MODELS: dict[str, Callable[[], Architecture]] = {"lenet": lenet}
