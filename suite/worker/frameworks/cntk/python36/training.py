"""One model of CNTK with its trainer; its results are written into the shared arrays."""

from typing import Any, Iterator  # noqa: UP035

import cntk
import numpy as np

from .layers import Network
from .optimizers import Optimizer


class Model:
    """Batches, weights and gradients are those of the session, in its layout.

    `arrays`: `values` (parameters) for weights and whatever has their size, `statistics` (means and
    variances), `logits` (N, classes), `inputs` (batches, N, ...), `targets` (batches, N, classes).
    """

    def __init__(
        self,
        arrays: "dict[str, Any]",
        layers: "list[dict[str, Any]]",
        parameters: "list[tuple[str, list[int]]]",
        statistics: "list[str]",
        optimizer: "dict[str, Any]",
        seed: int,
    ) -> None:
        cntk.cntk_py.set_fixed_random_seed(seed)
        self._values, self._logits = arrays["values"], arrays["logits"]
        self._statistics, self._named = arrays["statistics"], statistics
        self._shapes = dict(parameters)
        inputs, targets = arrays["inputs"], arrays["targets"]
        images = cntk.input_variable(inputs.shape[2:])
        labels = cntk.input_variable(targets.shape[2:])
        weights = {name: np.array(part).reshape(self._shapes[name]) for name, part in self._parts()}
        self._size = inputs.shape[1]
        network = Network(weights, self._size)
        self._output = network.series(layers, images)
        self._parameters, self._norms = network.parameters, network.norms
        self._loss = cntk.cross_entropy_with_softmax(self._output, labels)
        self._both = cntk.combine([self._loss, self._output])
        ordered = [self._parameters[name].tensor for name in self._shapes]
        self._optimizer = Optimizer(optimizer, ordered, self._size)
        self._trainer = cntk.Trainer(self._output, self._loss, [self._optimizer.learner])
        # The values of a place are CNTK's without a copy, today's and later ones.
        self._inputs = [{images: _borrowed(each)} for each in inputs]
        self._batches = [
            {**of_inputs, labels: _borrowed(each)} for of_inputs, each in zip(self._inputs, targets)
        ]

    def train(self, batches: "list[int]") -> None:
        for batch in batches:
            self._trainer.train_minibatch(self._batches[batch])

    def loss(self) -> float:
        return float(self._trainer.previous_minibatch_loss_average)

    def infer(self, batch: int) -> None:
        kept = [norm.variance.value for norm in self._norms.values()]
        for norm, variance in zip(self._norms.values(), kept):
            norm.variance.value = variance / norm.unbiased
        self._logits[...] = self._output.eval(self._inputs[batch])
        for norm, variance in zip(self._norms.values(), kept):
            norm.variance.value = variance

    def differentiate(self, batch: int) -> None:
        """CNTK's gradients are sums over the batch. The running statistics stay as they are."""
        kept = [norm.keep() for norm in self._norms.values()]
        ordered = [self._parameters[name].tensor for name in self._shapes]
        gradients, logits = self._both.grad(
            self._batches[batch],
            wrt=ordered,
            outputs=[self._output.output],
            grad_root=self._loss.output,
        )
        for norm, values in zip(self._norms.values(), kept):
            norm.put_back(values)
        self._logits[...] = logits
        self._write([gradients[tensor] / self._size for tensor in ordered])

    def read(self, name: str) -> None:
        """Write the weights, or a slot of the optimizer."""
        if name == "weights":
            self._write([self._parameters[each].tensor.value for each in self._shapes])
        else:
            self._write(self._optimizer.slot(name))

    def read_statistics(self) -> None:
        """Write the running means and biased variances."""
        parts = []
        for each in self._named:
            layer, _, role = each.rpartition(".")
            norm = self._norms[layer]
            is_mean = role == "mean"
            parts.append(norm.mean.value if is_mean else norm.variance.value / norm.unbiased)
        self._statistics[...] = np.concatenate(parts) if parts else ()

    def steps(self) -> int:
        return self._optimizer.steps()

    def _write(self, tensors: "list[Any]") -> None:
        for (name, part), tensor in zip(self._parts(), tensors):
            part[...] = self._parameters[name].canonical(tensor).ravel()

    def _parts(self) -> "Iterator[tuple[str, Any]]":
        """The part of the shared values that each parameter has."""
        start = 0
        for name, shape in self._shapes.items():
            end = start + int(np.prod(shape))
            yield name, self._values[start:end]
            start = end


def _borrowed(values: Any) -> Any:
    return cntk.Value(cntk.NDArrayView.from_dense(values, borrow=True))
