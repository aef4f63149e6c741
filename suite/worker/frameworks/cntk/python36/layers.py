"""A trial's layers as a network of CNTK: images are (channels, height, width)."""

from typing import Any

import cntk
import numpy as np

LOWEST = float(np.finfo(np.float32).min)
# CNTK weights its first batches by their share of all samples so far; not after so many.
SAMPLES_BEFORE = 1e6


class Parameter:
    """A parameter of CNTK, and how its values become those of the trial."""

    def __init__(self, values: Any, canonical: Any = lambda values: values) -> None:
        self.tensor = cntk.Parameter(values.shape, init=np.ascontiguousarray(values))
        self.canonical = canonical


class Norm:
    """The running statistics of a batch norm.

    CNTK accumulates the unbiased variance, which is `unbiased` times as large. It starts at that
    number, and inference takes the variance without it.
    """

    def __init__(self, channels: int, values: int) -> None:
        """`values`: the number of values in a batch that share their statistics."""
        self.unbiased = np.float32(values / (values - 1))
        self.mean = cntk.Constant(np.zeros(channels, np.float32))
        self.variance = cntk.Constant(np.full(channels, self.unbiased, np.float32))
        self.samples = cntk.Constant(np.full((), SAMPLES_BEFORE, np.float32))

    def keep(self) -> "tuple[Any, ...]":
        """A copy of the present values, for `put_back`."""
        return self.mean.value, self.variance.value, self.samples.value

    def put_back(self, kept: "tuple[Any, ...]") -> None:
        self.mean.value, self.variance.value, self.samples.value = kept


class Network:
    """A series of layers; parameters and statistics have the trial's names."""

    def __init__(self, weights: "dict[str, Any]", batch_size: int) -> None:
        self._weights = weights
        self._batch_size = batch_size
        self.parameters: dict[str, Parameter] = {}
        self.norms: dict[str, Norm] = {}

    def series(self, layers: "list[dict[str, Any]]", values: Any) -> Any:
        """The result of the layers, one after the other."""
        for layer in layers:
            kind = layer["kind"]
            if kind in JOINS:
                values = JOINS[kind]([self.series(each, values) for each in layer["branches"]])
            elif kind in SIMPLE:
                values = SIMPLE[kind](layer, values)
            elif kind in LAYERS:
                values = LAYERS[kind](self, layer, values)
            else:
                raise NotImplementedError(f"CNTK module has no layer {kind!r}")
        return values

    def _weight(self, layer: "dict[str, Any]") -> Any:
        name = layer["name"] + ".weight"
        self.parameters[name] = Parameter(self._weights[name])
        return self.parameters[name].tensor

    def _biased(self, layer: "dict[str, Any]", values: Any, shape: "tuple[int, ...]") -> Any:
        """The values plus the layer's bias, if it has one, in this shape."""
        if not layer["bias"]:
            return values
        name = layer["name"] + ".bias"
        self.parameters[name] = Parameter(self._weights[name].reshape(shape))
        return values + self.parameters[name].tensor

    def convolution(self, layer: "dict[str, Any]", values: Any) -> Any:
        if layer["dilation"] != [1, 1]:
            raise NotImplementedError("CNTK has no dilated convolution on a CPU")
        values, automatic = _padded(layer, values)
        values = cntk.convolution(
            self._weight(layer),
            values,
            strides=(1, *layer["stride"]),
            auto_padding=[False, automatic, automatic],
            groups=layer["groups"],
        )
        return self._biased(layer, values, (-1, 1, 1))

    def dense(self, layer: "dict[str, Any]", values: Any) -> Any:
        name = layer["name"] + ".weight"
        weight = Parameter(self._weights[name].T, np.transpose)
        self.parameters[name] = weight
        return self._biased(layer, cntk.times(values, weight.tensor), (-1,))

    def batch_norm(self, layer: "dict[str, Any]", values: Any) -> Any:
        _, height, width = values.shape
        norm = self.norms[layer["name"]] = Norm(
            layer["channels"], self._batch_size * height * width
        )
        bias = layer["name"] + ".bias"
        scale = self._weight(layer)
        self.parameters[bias] = Parameter(self._weights[bias])
        return cntk.batch_normalization(
            values,
            scale,
            self.parameters[bias].tensor,
            norm.mean,
            norm.variance,
            spatial=True,
            # In samples: a batch then has the share `momentum` of the running values.
            normalization_time_constant=-self._batch_size / np.log(1 - layer["momentum"]),
            epsilon=layer["epsilon"],
            running_count=norm.samples,
        )


def _padded(layer: "dict[str, Any]", values: Any, fill: float = 0.0) -> "tuple[Any, bool]":
    """The values with the layer's padding, or whether CNTK itself pads in the same way."""
    pads = layer["padding"]
    if pads == [0, 0]:
        return values, False
    same = [2 * pad + 1 for pad in pads] == layer["kernel"]
    if same and layer["stride"] == [1, 1] and layer["kind"] == "conv2d":
        return values, True
    pattern = [(0, 0), *((pad, pad) for pad in pads)]
    return cntk.pad(values, pattern, constant_value=fill), False


def _max_pool(layer: "dict[str, Any]", values: Any) -> Any:
    values, _ = _padded(layer, values, LOWEST)
    return cntk.pooling(
        values,
        cntk.MAX_POOLING,
        tuple(layer["kernel"]),
        tuple(layer["stride"]),
        ceil_out_dim=layer["ceil"],
    )


def _mean_pool(layer: "dict[str, Any]", values: Any) -> Any:
    values, _ = _padded(layer, values)
    return cntk.pooling(values, cntk.AVG_POOLING, tuple(layer["kernel"]), tuple(layer["stride"]))


def _global_mean(layer: "dict[str, Any]", values: Any) -> Any:
    mean = cntk.reduce_mean(values, axis=[1, 2])
    return cntk.reshape(mean, (values.shape[0],))


def _flatten(layer: "dict[str, Any]", values: Any) -> Any:
    return cntk.reshape(values, (int(np.prod(values.shape)),))


def _local_response_norm(layer: "dict[str, Any]", values: Any) -> Any:
    """CNTK divides alpha by the size, too."""
    return cntk.local_response_normalization(
        values, layer["size"] // 2, layer["k"], layer["alpha"], layer["beta"]
    )


def _leaky_relu(layer: "dict[str, Any]", values: Any) -> Any:
    """CNTK's own has the gradient 1 at 0."""
    slope = layer["slope"]
    return slope * values + (1 - slope) * cntk.relu(values)


def _bounded(values: Any, most: float) -> Any:
    """The values between 0 and `most`; CNTK's clip has the gradient 1 at 0."""
    return cntk.relu(values) - cntk.relu(values - most)


JOINS: "dict[str, Any]" = {
    "add": lambda ends: cntk.plus(*ends),
    "concat": lambda ends: cntk.splice(*ends, axis=0),
    "multiply": lambda ends: cntk.element_times(*ends),
}
SIMPLE: "dict[str, Any]" = {
    "max_pool2d": _max_pool,
    "avg_pool2d": _mean_pool,
    "global_avg_pool2d": _global_mean,
    "flatten": _flatten,
    "relu": lambda _, values: cntk.relu(values),
    "relu6": lambda _, values: _bounded(values, 6),
    "leaky_relu": _leaky_relu,
    "tanh": lambda _, values: cntk.tanh(values),
    "sigmoid": lambda _, values: cntk.sigmoid(values),
    "silu": lambda _, values: values * cntk.sigmoid(values),
    "hard_sigmoid": lambda layer, values: _bounded(layer["slope"] * values + 0.5, 1),
    "hard_swish": lambda _, values: values * _bounded(values + 3, 6) / 6,
    "local_response_norm": _local_response_norm,
    "dropout": lambda layer, values: cntk.dropout(values, layer["rate"]),
}
LAYERS: "dict[str, Any]" = {
    "conv2d": Network.convolution,
    "dense": Network.dense,
    "batch_norm": Network.batch_norm,
}
