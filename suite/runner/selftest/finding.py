"""What the self-test found for one fault, or for a worker without one."""

from __future__ import annotations

from dataclasses import dataclass

from suite.manifests.workloads import Precision


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one fault, or of the unchanged worker in one framework variant."""

    fault: str | None
    framework: str
    variant: str
    precision: Precision
    device: str
    caught_by: str | None  # the first message of a proof that found an error

    @property
    def good(self) -> bool:
        """Whether a fault was found, or the unchanged worker passed."""
        return (self.fault is not None) == (self.caught_by is not None)
