"""What the proofs of sameness compare: training steps, with all that came of them in files.

Mode parity does steps from the initial weights. The closing proof saves the state at the end of a
timed run and does one or two more steps with the function that was timed. Mode replay does those
steps again, from that state, in a framework of the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .data import Batches, batch_number
from .loop import LONG_STEP_S, Emit, Stepper
from .protocol import Array, Session, State, Trial, Weights, read_flat, read_weights
from .sketch import sketch

# Two, so that a fault in every second step is seen whenever it comes; but one where steps are long.
CLOSING_STEPS = 2
CLOSING = "closing"  # the folder in results/


def parity(trial: Trial, session: Session, layout: str, emit: Emit) -> None:
    """Do `steps` training steps and write all that must agree, one set of files for each step.

    `step<NN>_inference.npy` (N, classes), `_logits.npy` (the same in training mode) and
    `_gradients.npy` before the step, `_loss.npy` as the step returned it, `_weights.npy` and
    `_statistics.npy` after it; the last three as sketches, one after the other.
    """
    batches = Batches(trial, layout)
    results = Path(trial.paths["results"])
    for step in range(trial.steps):
        inputs, labels = batches.at(step)
        inference = session.logits(inputs)
        logits, gradients = session.gradients(inputs, labels)
        loss = session.read(session.train_step(session.put(inputs, labels)))
        tensors = {
            "inference": inference,
            "logits": logits,
            "gradients": _sketches(trial.parameters, gradients),
        }
        _save(results, f"step{step:02d}", tensors)
        _save(results, f"step{step:02d}", _outcome(trial, session, loss))
        emit("parity", step=step, loss=loss)


def close(trial: Trial, session: Session, stepper: Stepper, layout: str, emit: Emit) -> None:
    """Write the state, go on with the training that `stepper` did, and write what came of it.

    In `results/closing/`: `weights.npy`, `statistics.npy` and `optimizer_<slot>.npy` before the
    steps, `after_loss.npy`, `after_weights.npy` and `after_statistics.npy` as in mode parity.
    """
    place = Path(trial.paths["results"]) / CLOSING
    place.mkdir()
    slots = session.optimizer_state()
    before = {
        "weights": _flat(trial.parameters, session.weights()),
        "statistics": _flat(trial.statistics, session.statistics()),
        **{f"optimizer_{slot}": _flat(trial.parameters, slots[slot]) for slot in slots},
    }
    for name, values in before.items():
        np.save(place / f"{name}.npy", values)
    counted, first, step_s = session.step_count(), stepper.step, stepper.step_s
    if trial.input == "loader":  # whose batches nobody else can make again
        batches = Batches(trial, layout)
        stepper = Stepper(session, lambda step: session.put(*batches.at(step)), first)
    steps = CLOSING_STEPS if step_s < LONG_STEP_S else 1
    stepper.block(steps)  # both in one block: a fault between the steps of a block is seen too
    loss, _ = stepper.read_loss()
    _save(place, "after", _outcome(trial, session, loss))
    emit(
        "closing",
        step=first,
        steps=steps,
        optimizer_steps=counted,
        loss=loss,
    )


def replay(trial: Trial, session: Session, layout: str, emit: Emit) -> None:
    """Do `steps` training steps from the state in `paths.state`, `draws` times.

    A draw whose `perturbed<NN>.npy` lies in that folder begins with those weights. Each draw writes
    `draw<NN>_loss.npy`, `_weights.npy` and `_statistics.npy`.
    """
    batches = Batches(trial, layout)
    state = _read_state(trial)
    last = trial.first_step + trial.steps
    for draw in range(trial.draws):
        perturbed = perturbed_weights(Path(trial.paths["state"]), draw)
        weights = read_flat(perturbed, trial.parameters) if perturbed.exists() else state.weights
        session.restore(replace(state, weights=weights))
        loss: Any = None
        for step in range(trial.first_step, last):
            loss = session.train_step(session.put(*batches.at(batch_number(trial, batches, step))))
        value = session.read(loss)
        _save(Path(trial.paths["results"]), f"draw{draw:02d}", _outcome(trial, session, value))
        emit("replay", draw=draw, loss=value)


def perturbed_weights(state: Path, draw: int) -> Path:
    """The file with which a draw of mode replay begins in place of the state's weights, if any."""
    return state / f"perturbed{draw:02d}.npy"


def _read_state(trial: Trial) -> State:
    place = Path(trial.paths["state"])
    slots = {path.stem.partition("_")[2]: path for path in place.glob("optimizer_*.npy")}
    return State(
        weights=read_weights(trial),
        statistics=read_flat(place / "statistics.npy", trial.statistics),
        optimizer={slot: read_flat(path, trial.parameters) for slot, path in slots.items()},
        steps=trial.first_step,
    )


def _outcome(trial: Trial, session: Session, loss: float) -> dict[str, Any]:
    """What all proofs compare of a step."""
    return {
        "loss": loss,
        "weights": _sketches(trial.parameters, session.weights()),
        "statistics": _sketches(trial.statistics, session.statistics()),
    }


def _save(folder: Path, prefix: str, tensors: dict[str, Any]) -> None:
    for name, values in tensors.items():
        np.save(folder / f"{prefix}_{name}.npy", np.asarray(values))


def _sketches(named: list[dict[str, Any]], tensors: Weights) -> Array:
    """The sketches of the tensors that are `named`, in that order, one after the other."""
    return _joined([sketch(tensor) for tensor in _ordered(named, tensors)])


def _flat(named: list[dict[str, Any]], tensors: Weights) -> Array:
    """The values of the tensors that are `named`, in that order, one after the other."""
    return _joined([tensor.ravel() for tensor in _ordered(named, tensors)])


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)


def _ordered(named: list[dict[str, Any]], tensors: Weights) -> list[Array]:
    """Raise ValueError where a tensor has another shape than its name says."""
    for each in named:
        shape = tensors[each["name"]].shape
        if list(shape) != each["shape"]:
            raise ValueError(f"{each['name']} has shape {shape}, not {each['shape']}")
    return [tensors[each["name"]] for each in named]


MODES: dict[str, Callable[[Trial, Session, str, Emit], None]] = {"parity": parity, "replay": replay}
