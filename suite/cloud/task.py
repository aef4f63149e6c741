"""The YAML file of a machine, for SkyPilot: it can be read, and used by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import join, quote
from textwrap import indent

import yaml
from pydantic import Field, PositiveInt

import suite
from suite.cloud.offers import SETUP_S, Limits, Offer
from suite.engines.docker import pins
from suite.engines.docker.pins import Pins
from suite.engines.recipe import KINDS
from suite.manifests.strict import Strict
from suite.paths import REPOSITORY, write_atomically
from suite.results.rental import VARIABLE, Rental

IDLE_MINUTES = 10  # without a job, before the machine ends itself
DISK_GB = 100
SHARED = ("slurm", "kubernetes", "ssh")  # a job on machines of somebody, not a machine that is ours
# In the home folder on the machine, and in the folder of the machine, here.
RESULTS, OFFER, PINS = "dlsuite-results", "dlsuite-offer.json", "dlsuite-images.json"
TASK, OFFER_FILE, PINS_FILE = "task.yaml", "offer.json", "images.json"


class Task(Strict):
    """One machine that runs one suite."""

    name: str  # of the machine
    offer: Offer
    limits: Limits
    skypilot: str  # its version
    suite_name: str
    max_time: str  # as the option of `dlsuite run`
    options: tuple[str, ...] = ()  # more of them
    variables: dict[str, str] = Field(default={})  # of the environment on the machine
    machine: PositiveInt = 1  # of several of this type
    registry: str | None = None  # that the images are pulled from; None: the machine makes its own
    pins: Pins | None = None  # the images that are pulled
    resumed: bool = False  # whether the runs that were pulled are finished

    @property
    def rental(self) -> Rental:
        """What every record of this machine says of it."""
        offer, price = self.offer, self.limits.price(self.offer)
        return Rental(
            provider=offer.cloud,
            region=offer.region,
            zone=offer.zone,
            machine_type=offer.instance_type,
            accelerator=offer.accelerator,
            accelerators=offer.count,
            vcpus=offer.vcpus,
            memory_gib=offer.memory_gib,
            spot=self.limits.spot,
            price_per_hour=price or 0,
            catalog=offer.catalog,
            skypilot=self.skypilot,
            machine=self.machine,
            images=self.registry,
        )

    def write(self, folder: Path) -> None:
        """Write all that SkyPilot needs into the folder of the machine; OSError on failure."""
        write_atomically(folder / OFFER_FILE, self.rental.model_dump_json(indent=1) + "\n")
        if self.pins:
            pins.write(folder / PINS_FILE, self.pins)
        write_atomically(folder / TASK, self.text(folder.absolute()))

    def text(self, folder: Path) -> str:
        """The file; `folder` is that of the machine, here."""
        minutes, cost = int(self.limits.paid_s / 60), self.limits.cost(self.offer) or 0
        head = f"""\
# Written by dlsuite {suite.__version__}. By hand:
#   sky launch --cluster {self.name} {TASK}
#   rsync -a {self.name}:{RESULTS}/ results/
#   sky down {self.name}; sky status --refresh
# {self.rental.price_per_hour:.6g} $ per hour, at most {minutes} minutes: {cost:.2f} $.
"""
        return (
            head
            + yaml.safe_dump(
                {
                    "name": self.name,
                    "workdir": str(REPOSITORY),
                    "num_nodes": 1,
                    "resources": dict(self._resources()),
                    "file_mounts": dict(self._files(folder)),
                    "envs": self._environment(),
                },
                sort_keys=False,
            )
            + f"setup: |\n{indent(self._setup(minutes), '  ')}\n"
            + f"run: |\n{indent(self._run(), '  ')}\n"
        )

    def _resources(self) -> Iterator[tuple[str, object]]:
        yield "infra", self.offer.place
        yield "instance_type", self.offer.instance_type
        if self._own:
            if self.offer.gpus:
                yield "accelerators", self.offer.gpus
            yield "use_spot", self.limits.spot
            yield "disk_size", DISK_GB
            yield "max_hourly_cost", self.limits.max_price_per_hour
        yield "autostop", {"idle_minutes": IDLE_MINUTES, "down": True}

    def _files(self, folder: Path) -> Iterator[tuple[str, str]]:
        yield f"~/{OFFER}", str(folder / OFFER_FILE)
        if self.pins:
            yield f"~/{PINS}", str(folder / PINS_FILE)
        if self.resumed:
            yield f"~/{RESULTS}", str(folder / RESULTS)

    @property
    def _own(self) -> bool:
        """Whether the machine is nobody else's: then it may end itself."""
        return self.offer.cloud not in SHARED

    def _environment(self) -> dict[str, str]:
        engine = {"DLSUITE_ENGINE": "docker"} if self.registry else {}
        return {**engine, **self.variables}

    def _setup(self, minutes: int) -> str:
        lines = ["set -euo pipefail", f'export {VARIABLE}="$HOME/{OFFER}"']
        if self._own:
            lines += [
                "# The last of three nets: the machine ends itself, even if the others fail.",
                f"sudo shutdown -P +{minutes}",
            ]
        dlsuite = ".venv/bin/dlsuite"
        commands = [
            "make .venv/.ready",
            f"{dlsuite} doctor",
            f"{dlsuite} cloud check",
        ]
        if self.registry:
            kind = KINDS[bool(self.offer.count)]
            pull = join(["images", "pull", self.registry, "--device", kind])
            commands += [f'{dlsuite} {pull} --pins "$HOME/{PINS}"']
        if self.offer.accelerator:
            commands += [f"{dlsuite} peak --framework pytorch --gpus {self.offer.count}"]
        lines.append(f"timeout {SETUP_S} bash -ec {quote(chr(10).join(commands))}")
        return "\n".join(lines)

    def _run(self) -> str:
        run = ["run", self.suite_name, "--max-time", self.max_time, *self._gpus(), *self.options]
        command = join([*run, "--results"]) + f' "$HOME/{RESULTS}"'
        if self.resumed:
            command = f'resume latest --results "$HOME/{RESULTS}"'
        return f"""\
set -euo pipefail
export {VARIABLE}="$HOME/{OFFER}"
timeout --signal INT --kill-after 60 {int(self.limits.run_s)} \\
  .venv/bin/dlsuite {command}"""

    def _gpus(self) -> list[str]:
        return ["--gpus", str(self.offer.count)] if self.offer.count else []
