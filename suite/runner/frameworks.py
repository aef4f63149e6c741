"""The frameworks on one engine: each is prepared once, or is known to be unavailable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from suite.engines.base import Engine, Prepared
from suite.engines.errors import EngineLost, FrameworkUnavailable
from suite.engines.parallel import in_parallel
from suite.errors import EngineError
from suite.manifests import catalog
from suite.messages import Notify
from suite.parity import tensors, workers
from suite.protocol.plan import Trial
from suite.results.record import Error, Status
from suite.runner.support import unsupported_reason


@dataclass(frozen=True)
class Unavailable:
    """Why a framework, or a trial in it, cannot run on this machine."""

    status: Status
    error: Error


class Frameworks:
    """Prepares frameworks on `engine`, and remembers the outcome."""

    def __init__(self, engine: Engine, notify: Notify) -> None:
        self.engine = engine
        self._notify = notify
        self._outcomes: dict[str, Prepared | Unavailable] = {}

    def prepare(self, names: Iterable[str]) -> None:
        """Prepare the frameworks, two at a time: one downloads while another unpacks."""
        in_parallel(self.engine, self._prepare, names, at_once=2)

    @property
    def prepared(self) -> dict[str, Prepared]:
        """The frameworks that are ready, by name."""
        return {name: each for name, each in self._outcomes.items() if isinstance(each, Prepared)}

    @property
    def unavailable(self) -> dict[str, Error]:
        """Why the others are not ready, by name."""
        outcomes = self._outcomes.items()
        return {name: each.error for name, each in outcomes if isinstance(each, Unavailable)}

    @property
    def locks(self) -> dict[str, str]:
        """The digest of the lock of each framework that is ready."""
        return {name: prepared.lock_sha256 for name, prepared in self.prepared.items()}

    def of(self, trial: Trial) -> Prepared | Unavailable:
        """The framework of a trial, or why the trial cannot run."""
        if reason := unsupported_reason(trial):
            return Unavailable("skipped", Error(error_class="Unsupported", message=reason))
        return self._prepare(trial.framework)

    def with_reference(self, names: Iterable[str] = ()) -> dict[str, Prepared]:
        """The frameworks that are ready, after preparing `names` and the reference's frameworks.

        Raise ProofFailed where a framework of the reference is unavailable.
        """
        self.prepare(dict.fromkeys((*workers.FRAMEWORKS, *names)))
        for framework in workers.FRAMEWORKS:
            outcome = self._prepare(framework)
            if isinstance(outcome, Unavailable):
                raise tensors.ProofFailed(f"no reference: {outcome.error.message}")
        return self.prepared

    def _prepare(self, framework: str) -> Prepared | Unavailable:
        if framework not in self._outcomes:
            self._outcomes[framework] = self._try(framework)
        return self._outcomes[framework]

    def _try(self, framework: str) -> Prepared | Unavailable:
        try:
            return self.engine.prepare(catalog.framework(framework), self._notify)
        except EngineLost:
            raise
        except (FrameworkUnavailable, EngineError) as error:
            status: Status = "skipped" if isinstance(error, FrameworkUnavailable) else "failed"
            name = type(error).__name__
            reason = Error(error_class=name, message=str(error), hint=error.hint)
            return Unavailable(status, reason)
