"""The training steps that the parity proofs compare, with their results in files.

Mode parity does steps from the initial weights. The closing proof saves the state at the end of a
timed run, and does one or two more calls of the timed function. Of several ranks, each writes the
results of its slice of the batches. Mode replay does those steps
again, from the saved state, in a framework of the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .data import Batches, batch_number, in_order
from .loop import LONG_STEP_S, Emit, Stepper
from .protocol import AVERAGE, SLOTS, Array, Session, State, Trial, Weights, read_flat, read_weights
from .sketch import sketch

# If every second call is faulty, one of two calls shows it. Where calls are long, the closing proof
# does only one.
CLOSING_CALLS = 2
CLOSING = "closing"  # the folder in results/


def parity(trial: Trial, session: Session, layout: str, emit: Emit) -> None:
    """Do `steps` training steps, and write the files that are compared for each of them.

    With `paths.state`, do them `draws` times, from the weights in `perturbed<NN>.npy` of that
    folder (NN: the number of the draw) and a new model's running statistics. The names of the files
    then begin with `draw<NN>_`.

    Before the step: `step<NN>_inference.npy` (N, classes), of several ranks by rank 0 for the whole
    batch, `_logits.npy` (N, classes; training
    mode) and `_gradients.npy`. From the step itself: `_loss.npy`. After it: `_weights.npy` and
    `_statistics.npy`. Gradients, weights and statistics are sketches, one after the other.
    """
    if "state" not in trial.paths:
        _prove_steps(trial, session, layout, emit)
        return
    statistics = session.statistics()  # those in `paths.statistics` are for inference
    for draw in range(trial.draws):
        path = perturbed_weights(Path(trial.paths["state"]), draw)
        weights = read_flat(path, trial.parameters)
        zeros = {name: np.zeros_like(values) for name, values in weights.items()}
        slots = {slot: zeros for of_optimizer in SLOTS.values() for slot in of_optimizer}
        slots[AVERAGE] = weights
        session.restore(State(weights=weights, statistics=statistics, optimizer=slots, steps=0))
        _prove_steps(trial, session, layout, emit, f"draw{draw:02d}_")


def _prove_steps(trial: Trial, session: Session, layout: str, emit: Emit, prefix: str = "") -> None:
    """The steps of mode parity from the session's weights."""
    batches = Batches(trial, layout)
    whole = Batches(replace(trial, world_size=1), layout) if trial.world_size > 1 else batches
    results = Path(trial.paths["results"])
    for step in range(trial.steps):
        name = f"{prefix}step{step:02d}"
        inputs, labels = batches.at(step)
        if trial.rank == 0:
            slices = np.split(whole.at(step)[0], trial.world_size)
            inference = np.concatenate([session.logits(each) for each in slices])
            _save(results, name, {"inference": inference})
        logits, gradients = _gradients(trial, session, inputs, labels)
        loss = session.read(session.train_step(session.put(inputs, labels)))
        tensors = {
            "logits": logits,
            "gradients": _sketches(trial.parameters, gradients),
        }
        _save(results, name, tensors)
        _save(results, name, _outcome(trial, session, loss))
        emit("parity", step=step, loss=loss)


def _gradients(
    trial: Trial, session: Session, inputs: Array, labels: Array
) -> tuple[Array, Weights]:
    """The logits of a batch, and its gradients: the means of those of its micro-batches."""
    if trial.accumulate == 1:
        return session.gradients(inputs, labels)
    parts = zip(*(np.split(each, trial.accumulate) for each in (inputs, labels)))
    found = [session.gradients(*part) for part in parts]
    means = {
        name: np.mean([gradients[name] for _, gradients in found], axis=0) for name in found[0][1]
    }
    return np.concatenate([logits for logits, _ in found]), means


def close(trial: Trial, session: Session, stepper: Stepper, layout: str, emit: Emit) -> None:
    """Write the state, continue the training of `stepper`, and write the results.

    The files are in `results/closing/`. Before the steps: `weights.npy`, `statistics.npy` and
    `optimizer_<slot>.npy`. After them: `after_loss.npy`, `after_weights.npy` and
    `after_statistics.npy`, in the form of mode parity.
    """
    folder = Path(trial.paths["results"]) / CLOSING
    folder.mkdir()
    slots = session.optimizer_state()
    before = {
        "weights": _flat(trial.parameters, session.weights()),
        "statistics": _flat(trial.statistics, session.statistics()),
        **{f"optimizer_{slot}": _flat(trial.parameters, slots[slot]) for slot in slots},
    }
    for name, values in before.items():
        np.save(folder / f"{name}.npy", values)
    counted, first, step_s = session.step_count(), stepper.step, stepper.step_s
    if trial.input == "loader":  # the reference cannot reproduce the batches of a loader
        batches = in_order(session, Batches(trial, layout))
        stepper = Stepper(session, batches, stepper.group, first)
    calls = CLOSING_CALLS if step_s * stepper.per_call < LONG_STEP_S else 1
    steps = calls * stepper.per_call
    stepper.block(steps)  # one block: a fault between the calls of a block is found too
    loss, _ = stepper.read_loss()
    _save(folder, "after", _outcome(trial, session, loss))
    emit("closing", step=first, steps=steps, optimizer_steps=counted, loss=loss)


def replay(trial: Trial, session: Session, layout: str, emit: Emit) -> None:
    """Do `steps` training steps from the state in the folder `paths.state`, `draws` times.

    A draw starts from the weights in `perturbed<NN>.npy` where that file is in the folder. Each
    draw writes `draw<NN>_loss.npy`, `_weights.npy` and `_statistics.npy`.
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
    """The file with the weights of a draw; in mode replay the state's own where it is missing."""
    return state / f"perturbed{draw:02d}.npy"


def _read_state(trial: Trial) -> State:
    """The state that the closing proof of a timed run wrote."""
    folder = Path(trial.paths["state"])
    slots = {path.stem.partition("_")[2]: path for path in folder.glob("optimizer_*.npy")}
    return State(
        weights=read_weights(trial),
        statistics=read_flat(folder / "statistics.npy", trial.statistics),
        optimizer={slot: read_flat(path, trial.parameters) for slot, path in slots.items()},
        steps=trial.first_step,
    )


def _outcome(trial: Trial, session: Session, loss: float) -> dict[str, Any]:
    """The results of a step that all proofs compare."""
    found = {
        "loss": loss,
        "weights": _sketches(trial.parameters, session.weights()),
        "statistics": _sketches(trial.statistics, session.statistics()),
    }
    if trial.ema_decay is not None:
        averages = session.optimizer_state()[AVERAGE]
        found["averages"] = _sketches(trial.parameters, averages)
    return found


def _save(folder: Path, prefix: str, tensors: dict[str, Any]) -> None:
    for name, values in tensors.items():
        np.save(folder / f"{prefix}_{name}.npy", np.asarray(values))


def _sketches(named: list[dict[str, Any]], tensors: Weights) -> Array:
    """The sketches of the `named` tensors in that order, one after the other."""
    return _joined([sketch(tensor) for tensor in _ordered(named, tensors)])


def _flat(named: list[dict[str, Any]], tensors: Weights) -> Array:
    """The values of the `named` tensors in that order, one after the other."""
    return _joined([tensor.ravel() for tensor in _ordered(named, tensors)])


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)


def _ordered(named: list[dict[str, Any]], tensors: Weights) -> list[Array]:
    """The `named` tensors in that order; ValueError where one has another shape than named."""
    for each in named:
        shape = tensors[each["name"]].shape
        if list(shape) != each["shape"]:
            raise ValueError(f"{each['name']} has shape {shape}, not {each['shape']}")
    return [tensors[each["name"]] for each in named]


MODES: dict[str, Callable[[Trial, Session, str, Emit], None]] = {"parity": parity, "replay": replay}
