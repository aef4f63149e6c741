"""Caffe: its own solver for gradient descent, with and without momentum."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import caffe
import numpy as np
from caffe.proto import caffe_pb2

from ...protocol import Array, State, Trial, Weights
from . import device as caffe_device
from . import norms
from .layers import DATA, LABELS, LOGITS, LOSS, ROLES, Builder, scale_of
from .optimizers import NAMES, Optimizer

LAYOUT = "NCHW"


def version() -> str:
    return str(caffe.__version__)


device = caffe_device.describe
memory = caffe_device.memory


class Session:
    """The solver trains one network; another one, which shares its parameters, infers."""

    def __init__(self, trial: Trial, weights: Weights) -> None:
        caffe_device.prepare(trial)
        self._trial = trial
        self._folder = Path(tempfile.mkdtemp(prefix="caffe-"))
        self._solver = self._made_solver(trial)
        self._net = self._solver.net
        self._parameters = parameters(trial, self._net)
        for name, blob in self._parameters.items():
            blob.data[...] = weights[name]
        self._norms = norms.all_of(trial, self._net)
        self._inference = network(trial, self._folder)
        self._inference.share_with(self._net)
        self._momentum = trial.optimizer["name"] == "momentum"
        self._rate = trial.optimizer["learning_rate"]
        own = trial.optimizer["name"] in NAMES
        self._optimizer = Optimizer(trial, self._parameters) if own else None
        self._inputs, self._labels = (self._net.blobs[name].data for name in (DATA, LABELS))
        self._loss = self._net.blobs[LOSS].data

    def _made_solver(self, trial: Trial) -> Any:
        optimizer = trial.optimizer
        solver = caffe_pb2.SolverParameter(
            type="SGD",
            base_lr=optimizer["learning_rate"],
            momentum=optimizer.get("momentum", 0.0),
            lr_policy="fixed",
            random_seed=trial.seed,
            snapshot_prefix=str(self._folder / "state"),
        )
        solver.net_param.CopyFrom(Builder(trial, training=True).net)
        return caffe.get_solver(_written(solver, self._folder / "solver.prototxt"))

    def put(self, inputs: Any, labels: Any) -> tuple[Array, Array]:
        return inputs, labels

    def train_step(self, batch: tuple[Array, Array]) -> Array:
        self._inputs[...], self._labels[...] = batch
        if self._optimizer is None:
            self._solver.step(1)
        else:
            self._differentiate()
            self._optimizer.step()
        return self._loss

    def synchronize(self) -> None:
        """On the CPU every step is done when it returns."""

    def read(self, loss: Array) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        norms.set_for_inference(self._trial, self._inference, self.statistics())
        return predicted(self._inference, inputs)

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        kept = [norm.keep() for norm in self._norms]
        self._inputs[...], self._labels[...] = inputs, labels
        self._differentiate()
        for norm, values in zip(self._norms, kept):
            norm.put_back(values)
        gradients = {name: blob.diff.copy() for name, blob in self._parameters.items()}
        return self._net.blobs[LOGITS].data.copy(), gradients

    def _differentiate(self) -> None:
        self._net.clear_param_diffs()
        self._net.forward()
        self._net.backward()

    def weights(self) -> Weights:
        return {name: blob.data.copy() for name, blob in self._parameters.items()}

    def statistics(self) -> Weights:
        return norms.statistics(self._norms, self.step_count())

    def optimizer_state(self) -> dict[str, Weights]:
        if self._optimizer is not None:
            return self._optimizer.slots
        return {"velocity": self._velocity()} if self._momentum else {}

    def step_count(self) -> int:
        return self._optimizer.steps if self._optimizer is not None else int(self._solver.iter)

    def restore(self, state: State) -> None:
        raise NotImplementedError("Caffe is not a reference framework")

    def _velocity(self) -> Weights:
        """The solver's history, which only its snapshot has; it contains the learning rate."""
        self._solver.snapshot()
        path = self._folder / f"state_iter_{self._solver.iter}.solverstate"
        state = caffe_pb2.SolverState.FromString(path.read_bytes())
        # In the order of the network's learnable parameters, which leaves out those of batch norms.
        return {
            name: np.array(blob.data, np.float32).reshape(self._parameters[name].data.shape)
            / self._rate
            for name, blob in zip(self._parameters, _of_gradients(state, self._net))
        }


def _of_gradients(state: Any, net: Any) -> list[Any]:
    """The blobs of a solver's history without those of the statistics of batch norms.

    The history has a blob for each parameter of the network in the order of its layers.
    """
    kinds = dict(zip(net._layer_names, (layer.type for layer in net.layers)))
    owners = [name for name, blobs in net.params.items() for _ in blobs]
    return [blob for name, blob in zip(owners, state.history) if kinds[name] != "BatchNorm"]


def parameters(trial: Trial, net: Any) -> dict[str, Any]:
    """The blobs of a network by the names of the trial's parameters, in its order."""
    blobs = {}
    for layer in trial.leaves():
        name, kind = layer["name"], layer["kind"]
        if kind in ROLES:
            own = net.params[scale_of(name) if kind == "batch_norm" else name]
            blobs.update({f"{name}.{role}": blob for role, blob in zip(ROLES[kind], own)})
    return {each["name"]: blobs[each["name"]] for each in trial.parameters}


def network(trial: Trial, folder: Path) -> Any:
    """A network for inference."""
    described = Builder(trial, training=False).net
    return caffe.Net(_written(described, folder / "inference.prototxt"), caffe.TEST)


def predicted(net: Any, inputs: Array) -> Array:
    """The logits (N, classes) of a network."""
    net.blobs[DATA].data[...] = inputs
    net.forward()
    logits: Array = net.blobs[LOGITS].data.copy()
    return logits


def _written(described: Any, path: Path) -> str:
    """Write a description for Caffe, which reads only files; return the file's name."""
    path.write_text(str(described), encoding="utf-8")
    return str(path)
