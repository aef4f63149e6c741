"""LAMB whose decay is a part of the update, and whose norms are those of whole parameters.

Keras's own shrinks the weights before its step, and takes the norms of each of its variables: three
for the queries, keys and values of an attention, and one for both biases of a GRU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from .layers import Gates


def of_parameters(parameters: list[list[Any]], whole: Callable[[Any], Any]) -> Any:
    """Keras's Lamb for a model; each of its parameters is a list of variables or of `Gates`.

    `whole` makes a tensor of a gradient. Variables that are excluded from weight decay take the
    step of Adam. The parameters are no attribute of the optimizer, because Keras takes variables in
    attributes for the optimizer's own.
    """

    class Lamb(keras.optimizers.Lamb):
        def _apply_weight_decay(self, variables: Any) -> None:
            """Do nothing: the update has the decay."""

        def _backend_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
            """The formulas of docs/reference/optimizers.md, for all variables together."""
            updates = {
                variable.path: self._update(gradient, variable)
                for gradient, variable in zip(grads, variables)
            }
            ratios: dict[str, Any] = {}
            for parts in parameters:
                places = [_place(part) for part in parts]
                if self._use_weight_decay(places[0][0]):
                    _set_ratio(places, updates, ratios)
            for variable in variables:
                rate = ops.cast(learning_rate, variable.dtype) * ratios.get(variable.path, 1.0)
                self.assign_sub(variable, rate * updates[variable.path])

        def _update(self, gradient: Any, variable: Any) -> Any:
            """The direction of Adam for a variable, with its decay; its slots are updated."""
            index, dtype = self._get_variable_index(variable), variable.dtype
            first, second = self._momentums[index], self._velocities[index]
            gradient = ops.cast(whole(gradient), dtype)
            self.assign_add(first, (gradient - first) * (1 - self.beta_1))
            self.assign_add(second, (ops.square(gradient) - second) * (1 - self.beta_2))
            step = ops.cast(self.iterations + 1, dtype)
            of_first, of_second = (
                1 - ops.power(ops.cast(beta, dtype), step) for beta in (self.beta_1, self.beta_2)
            )
            update = first / of_first / (ops.sqrt(second / of_second) + self.epsilon)
            if self._use_weight_decay(variable):
                update = update + self.weight_decay * variable
            return update

    return Lamb


def _place(part: Any) -> tuple[Any, Any]:
    """The variable that holds a part of a parameter, and where; None: the whole variable."""
    return (part.variable, part.mask) if isinstance(part, Gates) else (part, None)


def _set_ratio(places: list[tuple[Any, Any]], updates: dict[str, Any], ratios: Any) -> None:
    """Set the trust ratio of a parameter for each of its variables, by their paths."""
    weights = _norm(places)
    of_update = _norm([(updates[variable.path], mask) for variable, mask in places])
    is_zero = ops.logical_or(weights == 0, of_update == 0)
    ratio = ops.where(is_zero, 1.0, weights / of_update)
    for variable, mask in places:
        others = ratios.get(variable.path, 1.0)
        ratios[variable.path] = ratio if mask is None else ops.where(mask, ratio, others)


def _norm(parts: list[tuple[Any, Any]]) -> Any:
    """The norm of all values together, of those in the mask where there is one."""
    squares = (
        ops.square(values) if mask is None else ops.where(mask, ops.square(values), 0.0)
        for values, mask in parts
    )
    return ops.sqrt(sum(ops.sum(each) for each in squares))
