"""The steps of docs/reference/optimizers.md: CNTK's own learners, or updates in its graph.

CNTK's gradients are sums over the batch. Its Adam and RMSProp have other definitions.
"""

from typing import Any

import cntk
import numpy as np


class Optimizer:
    """A learner for the parameters, and its slots in their order."""

    def __init__(
        self, optimizer: "dict[str, Any]", parameters: "list[Any]", batch_size: int
    ) -> None:
        self._options, self._parameters = optimizer, parameters
        self._size = batch_size
        self._slots: dict[str, list[Any]] = {}
        name = optimizer["name"]
        if name in ("sgd", "momentum"):
            self.learner = self._own(name)
        else:
            # It takes a function of two arguments, and no method.
            self.learner = cntk.universal(lambda ours, sums: self._update(ours, sums), parameters)

    def slot(self, name: str) -> "list[Any]":
        """The values of a slot for each parameter."""
        if name == "velocity":  # CNTK's contains the learning rate
            kept = self.learner.create_checkpoint()["smoothed_gradients"]
            return [each / self._options["learning_rate"] for each in kept]
        return [each.value for each in self._slots[name]]

    def steps(self) -> int:
        return int(self.learner.total_number_of_minibatches_seen())

    def _own(self, name: str) -> Any:
        """Both divide the gradients by the number of samples."""
        size = self._size
        rate = cntk.learning_parameter_schedule(self._options["learning_rate"], minibatch_size=size)
        if name == "sgd":
            return cntk.sgd(self._parameters, rate, minibatch_size=size)
        momentum = cntk.momentum_schedule(self._options["momentum"], minibatch_size=size)
        return cntk.momentum_sgd(
            self._parameters, rate, momentum, unit_gain=False, minibatch_size=size
        )

    def _update(self, parameters: "list[Any]", gradients: "list[Any]") -> Any:
        step = self._rmsprop if self._options["name"] == "rmsprop" else self._adam()
        updates = [
            cntk.assign(each, step(each, gradient / self._size))
            for each, gradient in zip(parameters, gradients)
        ]
        return cntk.combine(updates)

    def _averaged(self, slot: str, decay: float, tensor: Any) -> Any:
        """The new value of a slot, which decays to the tensor."""
        kept = _zeros(tensor.shape)
        self._slots.setdefault(slot, []).append(kept)
        return cntk.assign(kept, decay * kept + (1 - decay) * tensor)

    def _rmsprop(self, weight: Any, gradient: Any) -> Any:
        rate, decay, epsilon = (
            self._options[name] for name in ("learning_rate", "decay", "epsilon")
        )
        second = self._averaged("second_moment", decay, gradient * gradient)
        return weight - rate * gradient / cntk.sqrt(second + epsilon)

    def _adam(self) -> Any:
        options = self._options
        rate, epsilon = options["learning_rate"], options["epsilon"]
        betas = options["beta1"], options["beta2"]
        # 1 - beta^t is a mean of ones, and so without the difference of two nearly equal numbers.
        of_first, of_second = (
            cntk.assign(kept, beta * kept + (1 - beta))
            for kept, beta in zip((_zeros((1,)), _zeros((1,))), betas)
        )

        def step(weight: Any, gradient: Any) -> Any:
            first = self._averaged("first_moment", betas[0], gradient)
            second = self._averaged("second_moment", betas[1], gradient * gradient)
            if options["name"] == "adamw":
                weight = (1 - rate * options["weight_decay"]) * weight
            change = (first / of_first) / (cntk.sqrt(second / of_second) + epsilon)
            return weight - rate * change

        return step


def _zeros(shape: Any) -> Any:
    return cntk.constant(0, shape=shape, dtype=np.float32)
