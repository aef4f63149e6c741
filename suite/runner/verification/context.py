"""What the checks of a record need to know about its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suite.paths import sha256
from suite.runner import sources

if TYPE_CHECKING:
    from suite.parity.certificates import Certificate
    from suite.protocol.plan import Run
    from suite.results.roofline import HardwarePeak
    from suite.runner.planfile import Planned
    from suite.runner.verification.inputs import Known


@dataclass(frozen=True, kw_only=True)
class Context:
    """The folder of a run with its plan, its certificates by their key, its peak and its models."""

    folder: Path
    planned: Planned
    runs: dict[str, Run]  # of the plan, by name
    certificates: dict[str, Certificate]
    peak: HardwarePeak | None
    inputs: Known  # models, and the sizes of datasets

    def lock_sha256(self, framework: str) -> str | None:
        """The digest of a framework's lock; a resumed run may have one that its plan lacks."""
        path = sources.lock_path(self.folder, framework)
        digest = self.planned.locks.get(framework)
        return digest or (sha256(path) if path.is_file() else None)
