"""Device sets: how many devices train one model together, and on how many nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from pydantic import AfterValidator

DeviceKind = Literal["cpu", "cuda"]
# Of the float64 reference: the faster one, the CPU, or the devices of the workers.
ReferenceChoice = Literal["auto", "cpu", "device"]
FORM = re.compile(r"(cpu|cuda)(?::([1-9]\d*)(?:x([1-9]\d*))?)?")
EXAMPLES = "cpu, cpu:2, cuda:4, or cuda:4x2 for 4 on each of 2 nodes"


@dataclass(frozen=True)
class Devices:
    """`per_node` devices on each of `nodes` nodes; one process, a rank, computes on each.

    A device on a CPU is an equal part of its physical cores.
    """

    kind: DeviceKind
    per_node: int = 1
    nodes: int = 1

    @staticmethod
    def parse(text: str) -> Devices:
        """The device set KIND[:PER_NODE[xNODES]]; ValueError where the text is not one."""
        found = FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a device set, such as {EXAMPLES}")
        kind, per_node, nodes = found.groups()
        return Devices(cast(DeviceKind, kind), int(per_node or 1), int(nodes or 1))

    def __str__(self) -> str:
        if self.nodes > 1:
            return f"{self.kind}:{self.per_node}x{self.nodes}"
        return self.kind if self.per_node == 1 else f"{self.kind}:{self.per_node}"

    @property
    def ranks(self) -> int:
        """The number of devices."""
        return self.per_node * self.nodes

    def parts_of_machine(self, plan_parts: int, *, separate: bool) -> int:
        """Into how many equal parts the cores of one machine are divided.

        On a CPU, `plan_parts`, which is the same for all trials of a plan. On GPUs, each rank has a
        part. `separate` nodes are machines of their own.
        """
        if self.kind == "cpu":
            return plan_parts
        return self.per_node if separate else self.ranks


def _valid(text: str) -> str:
    Devices.parse(text)
    return text


DeviceSet = Annotated[str, AfterValidator(_valid)]
