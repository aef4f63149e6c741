"""The YAML file of a machine, for SkyPilot: it can be read, and used by hand."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import join, quote
from textwrap import indent

import suite
from suite.cloud.offers import Limits, Offer
from suite.paths import REPOSITORY

IDLE_MINUTES = 10  # without a job, before the machine ends itself
DISK_GB = 100


@dataclass(frozen=True, kw_only=True)
class Task:
    """One machine that runs one suite."""

    name: str  # of the cluster
    offer: Offer
    limits: Limits
    suite_name: str
    max_time: str  # as the option of `dlsuite run`

    @property
    def text(self) -> str:
        """The file."""
        offer, limits = self.offer, self.limits
        minutes = int(limits.paid_s / 60)
        spot = str(limits.spot).lower()
        return f"""\
# Written by dlsuite {suite.__version__}. By hand:
#   sky launch --cluster {self.name} --down task.yaml
#   rsync -a {self.name}:dlsuite-results/ results/
#   sky down {self.name}; sky status --refresh
# {limits.price(offer)} $ per hour, at most {minutes} minutes: {limits.cost(offer):.2f} $.
name: {self.name}
workdir: {quote(str(REPOSITORY))}
num_nodes: 1
resources:
  infra: {offer.cloud}/{offer.region}
  instance_type: {offer.instance_type}
  accelerators: {offer.accelerator}:{offer.count}
  use_spot: {spot}
  disk_size: {DISK_GB}
  max_hourly_cost: {limits.max_price_per_hour:g}
  autostop: {{idle_minutes: {IDLE_MINUTES}, down: true}}
setup: |
{indent(self._setup(minutes), "  ")}
run: |
{indent(self._run(), "  ")}
"""

    def _setup(self, minutes: int) -> str:
        return f"""\
set -euo pipefail
# The last of three nets: the machine ends itself, whatever happens to the others.
sudo shutdown -P +{minutes}
nvidia-smi
make .venv/.ready
.venv/bin/dlsuite doctor"""

    def _run(self) -> str:
        run = [
            *(".venv/bin/dlsuite", "run", self.suite_name, "--gpus", str(self.offer.count)),
            *("--max-time", self.max_time, "--results"),
        ]
        return f"""\
set -euo pipefail
timeout --signal INT --kill-after 60 {int(self.limits.run_s)} \\
  {join(run)} ~/dlsuite-results"""
