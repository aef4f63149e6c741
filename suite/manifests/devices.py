"""Kinds of devices, and device sets: how many train one model together, on how many nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from pydantic import AfterValidator

DeviceKind = Literal["cpu", "cuda", "tpu"]
Product = Literal["float32", "tf32", "bfloat16", "float64"]  # the operands of a matrix product
# Of the float64 reference: the faster one, the CPU, or the devices of the workers.
ReferenceChoice = Literal["auto", "cpu", "device"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the suite has to know of a kind of device."""

    title: str
    lock: str  # in docker/<framework>/; a framework without it has no environment and no image
    first: str  # the name of a worker's first device, in trial.json
    facts: str  # the machine's list of these devices (worker/host.py)
    visible: str | None  # the variable by which a process sees only the chosen ones
    # The operands of the products whose peak is measured: those that workloads use, and all.
    peak: tuple[Product, ...]
    every_peak: tuple[Product, ...]
    frameworks: tuple[str, ...] = ()  # the only ones that know it; none: those with the lock
    has_run: bool = True  # whether anything has run on one


ON_GPU: tuple[Product, ...] = ("float32", "tf32", "bfloat16")
KINDS: dict[DeviceKind, Kind] = {
    "cpu": Kind(
        title="CPU",
        lock="cpu.txt",
        first="cpu",
        facts="cpus",
        visible=None,
        peak=("float32",),
        # On a CPU without instructions for bfloat16, one product in it takes a minute.
        every_peak=("float32", "bfloat16"),
    ),
    "cuda": Kind(
        title="GPU",
        lock="cuda.txt",
        first="cuda:0",
        facts="gpus",
        visible="CUDA_VISIBLE_DEVICES",
        peak=ON_GPU,
        every_peak=ON_GPU,
    ),
    # docs.jax.dev/en/latest/installation.html, and the variables of libtpu.
    "tpu": Kind(
        title="TPU",
        lock="tpu.txt",
        first="tpu:0",
        facts="tpus",
        visible="TPU_VISIBLE_CHIPS",
        peak=("float32", "bfloat16"),
        every_peak=("float32", "bfloat16"),
        frameworks=("jax",),
        has_run=False,
    ),
}
FORM = re.compile(rf"({'|'.join(KINDS)})(?::([1-9]\d*)(?:x([1-9]\d*))?)?")
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
