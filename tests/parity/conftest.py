"""A reference with fixed results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.parity.replay import Replay, StateReference
from suite.parity.tensors import Tensors
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Start


@pytest.fixture
def reference(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., StateReference]:
    """A reference with fixed results: `draws` in float64, `perturbed` from perturbed weights."""

    def make(
        *draws: Tensors, stored: float = 0.0, perturbed: Tensors | None = None
    ) -> StateReference:
        def computed(self: StateReference, which: Any, precision: str, draw: int = 0) -> Any:
            one = draw or (precision == "float32" and len(draws) == 1)
            return [perturbed or draws[0]] if one else [*draws]

        monkeypatch.setattr(StateReference, "computed", computed)
        monkeypatch.setattr(Replay, "at_once", lambda *_: 1)
        monkeypatch.setattr(
            StateReference, "storage_tolerances", lambda *known: [{"updates a": stored}]
        )
        trial = quick("pytorch").trials[0]
        unused: Any = None
        prover = Replay(
            engine=unused,
            prepared={},
            inputs=unused,
            steps=1,
            work_dir=Path(),
            notify=print,
            start=Start(state=Path(), first_step=0, steps=1),
        )
        return StateReference(prover=prover, trial=trial, key="")

    return make
