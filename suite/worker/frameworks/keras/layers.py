"""A trial's layers as a functional Keras model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from ...attention import masks_needed
from ...layouts import paddings, same_paddings, shares, side_paddings
from ...protocol import Trial
from .attention import ZEROS, Masks, RotaryAttention, WindowAttention, key_masks


class ClassToken(layers.Layer):
    """One learned vector before the sequence; like all parameters without products in float32."""

    def build(self, shape: Any) -> None:
        options = {"initializer": "zeros", "name": "token", "autocast": False}
        self.token = self.add_weight(shape=shape[-1:], **options)

    def call(self, sequence: Any) -> Any:
        first = ops.zeros_like(sequence[:, :1], dtype=self.variable_dtype) + self.token
        return ops.concatenate([ops.cast(first, sequence.dtype), sequence], 1)


class PositionEmbedding(layers.Layer):
    """One learned vector added to each member of the sequence, or the same to all, in float32."""

    def __init__(self, length: int, **options: Any) -> None:
        super().__init__(**options)
        self._length = length

    def build(self, shape: Any) -> None:
        options = {"initializer": "zeros", "name": "table", "autocast": False}
        self.table = self.add_weight(shape=(self._length, shape[-1]), **options)

    def call(self, sequence: Any) -> Any:
        wide = ops.cast(sequence, self.variable_dtype)
        return ops.cast(wide + self.table, sequence.dtype)


class Scale(layers.Layer):
    """A factor for each channel, in float32."""

    def build(self, shape: Any) -> None:
        options = {"initializer": "ones", "name": "factors", "autocast": False}
        self.factors = self.add_weight(shape=shape[-1:], **options)

    def call(self, images: Any) -> Any:
        return ops.cast(ops.cast(images, self.variable_dtype) * self.factors, images.dtype)


class TiedHead(layers.Layer):
    """The product with the weight of an embedding."""

    def __init__(self, layer: dict[str, Any], embedding: Any, **options: Any) -> None:
        super().__init__(**options)
        self.embedding, self._layer = embedding, layer

    def build(self, shape: Any) -> None:
        if self._layer["bias"]:
            size = (self._layer["vocabulary"],)
            self.bias = self.add_weight(shape=size, initializer="zeros", name="bias")

    def call(self, sequence: Any) -> Any:
        product = ops.matmul(sequence, ops.transpose(self.embedding.embeddings))
        return product + self.bias if self._layer["bias"] else product


def make(trial: Trial) -> tuple[Any, dict[str, Any]]:
    """The model, and its layers by name."""
    shape = tuple(trial.architecture["input_shape"])
    by_name: dict[str, Any] = {}
    of_tokens = trial.layers[0]["kind"] == "embedding"
    last = (*shape[1:], shape[0]) if len(shape) == 3 else shape
    dtype = "int32" if of_tokens else None
    inputs = keras.Input(last, dtype=dtype, name=".inputs")  # no name of a layer
    masks = key_masks(inputs, *masks_needed(trial.leaves()))
    outputs = _series(trial.layers, inputs, by_name, trial.seed, masks)
    return keras.Model(inputs, outputs), by_name


def _series(
    series: list[dict[str, Any]], values: Any, by_name: dict[str, Any], seed: int, masks: Masks
) -> Any:
    """The result of the layers for the input `values`; the layers are added to `by_name`."""
    for layer in series:
        kind = layer["kind"]
        if "branches" in layer:
            results = [
                _series(branch, values, by_name, seed, masks) for branch in layer["branches"]
            ]
            values = JOINS[kind]()(results)
            continue
        if kind in WINDOWS:
            values, padding = _padded(layer, values)
            lowered = _window(layer, padding)
        elif kind == "tied_head":
            lowered = TiedHead(layer, by_name[layer["embedding"]], name=layer["name"])
        else:
            lowered = _lower(layer, seed + len(by_name))
        by_name[layer["name"]] = lowered
        if kind == "avg_pool2d" and padding == "valid" and (share := shares(layer)) is not None:
            values = lowered(values) * (1 / share)[..., None].astype("float32")
        elif layer.get("padding_id") is not None:
            values = _of_padded(layer, lowered, values, masks[layer.get("causal", False)])
        elif isinstance(lowered, layers.MultiHeadAttention):
            values = lowered(values, values, use_causal_mask=layer["causal"])
        else:
            values = lowered(values)
    return values


def _of_padded(layer: dict[str, Any], lowered: Any, sequence: Any, mask: Any) -> Any:
    """The result of a layer for a sequence with padding."""
    if layer["kind"] == "mean_token":
        return lowered(sequence, mask=mask[:, 0])
    if isinstance(lowered, layers.MultiHeadAttention):
        return lowered(sequence, sequence, attention_mask=mask)
    return lowered(sequence, mask)


JOINS = {"add": layers.Add, "multiply": layers.Multiply, "concat": layers.Concatenate}
WINDOWS = {
    "conv2d": layers.Conv2D,
    "max_pool2d": layers.MaxPooling2D,
    "avg_pool2d": layers.AveragePooling2D,
}


def _padded(layer: dict[str, Any], images: Any) -> tuple[Any, str]:
    """The images, padded where no keyword describes the padding, and the keyword for the layer."""
    pairs, kind = paddings(layer), layer["kind"]
    if not any(map(any, pairs)):
        return images, "valid"
    if kind == "max_pool2d":
        if pairs == same_paddings(layer):
            return images, "same"
        lowest = float(np.finfo(np.float32).min)
        return ops.pad(images, [(0, 0), *pairs, (0, 0)], constant_values=lowest), "valid"
    counts = layer.get("count_padding", False)
    # On PyTorch, "same" repeats the border where the padding is uneven, and the mean contains it.
    repeats = keras.backend.backend() == "torch" and any(one != other for one, other in pairs)
    if pairs == same_paddings(layer) and (kind == "conv2d" or not (counts or repeats)):
        return images, "same"
    # With "same", the divisor of an average does not count the padding.
    return layers.ZeroPadding2D(pairs)(images), "valid"


def _window(layer: dict[str, Any], padding: str) -> Any:
    sizes = {"strides": tuple(layer["stride"]), "padding": padding, "name": layer["name"]}
    kernel, make = tuple(layer["kernel"]), WINDOWS[layer["kind"]]
    if layer["kind"] != "conv2d":
        return make(kernel, **sizes)
    groups = {"groups": layer["groups"], "dilation_rate": tuple(layer["dilation"])}
    return make(layer["out_channels"], kernel, use_bias=layer["bias"], **groups, **sizes, **ZEROS)


# Kernels start at zero, because the weights come from the file.


def _lower(layer: dict[str, Any], seed: int) -> Any:
    kind, named = layer["kind"], {"name": layer["name"]}
    if kind == "dense":
        return layers.Dense(layer["out_features"], use_bias=layer["bias"], **ZEROS, **named)
    if kind == "batch_norm":
        numbers = {"momentum": 1 - layer["momentum"], "epsilon": layer["epsilon"]}
        return layers.BatchNormalization(**numbers, **named)
    if kind == "layer_norm":
        return layers.LayerNormalization(epsilon=layer["epsilon"], **named)
    if kind == "position_embedding":
        return PositionEmbedding(layer["length"], **named)
    if kind == "group_norm":
        return layers.GroupNormalization(layer["groups"], epsilon=layer["epsilon"], **named)
    if kind == "rms_norm":
        return layers.RMSNormalization(epsilon=layer["epsilon"], **named)
    if kind == "conv2d_transposed":
        return TransposedConv2D(layer, **ZEROS, **named)
    if kind == "upsample":
        return layers.UpSampling2D(tuple(layer["factor"]), interpolation=layer["mode"], **named)
    if kind == "window_attention":
        return WindowAttention(layer, **named)
    if kind == "embedding":
        sizes = layer["vocabulary"], layer["features"]
        return layers.Embedding(*sizes, embeddings_initializer="zeros", **named)
    if kind == "channel_slice":
        part = slice(layer["start"], layer["stop"])
        return layers.Lambda(lambda images: images[..., part], **named)
    if kind == "channel_shuffle":
        return _channel_shuffle(layer)
    if kind == "zero_padding2d":
        return layers.ZeroPadding2D(side_paddings(layer), **named)
    if kind == "cropping2d":
        return layers.Cropping2D(side_paddings(layer), **named)
    if kind == "gelu":
        function = keras.activations.gelu
        approximate = layer["approximate"]
        return layers.Activation(partial(function, approximate=approximate), **named)
    if kind == "dropout":
        shape = (None, *[1] * len(layer["input_shape"])) if layer["whole"] else None
        return layers.Dropout(layer["rate"], noise_shape=shape, seed=seed, **named)
    if kind == "local_response_norm":
        return layers.Lambda(partial(_local_response_norm, layer), **named)
    if kind == "hard_sigmoid":
        scale = 6 * layer["slope"]
        if scale == 1:
            return layers.Activation(kind, **named)
        return layers.Activation(lambda x: ops.hard_sigmoid(scale * x), **named)
    if kind == "leaky_relu":
        slope = layer["slope"]
        if keras.backend.backend() == "jax":  # whose gradient at 0 is 1, not the slope
            return layers.Activation(lambda x: ops.where(x > 0, x, slope * x), **named)
        return layers.LeakyReLU(negative_slope=slope, **named)
    if kind in ("lstm", "gru"):
        make = layers.LSTM if kind == "lstm" else layers.GRU
        options = {"return_sequences": layer["sequence"], "recurrent_initializer": "zeros"}
        return make(layer["hidden"], **options, **ZEROS, **named)
    if kind == "self_attention":
        heads = layer["heads"]
        if layer["kv_heads"] or layer["rotary_theta"]:
            return RotaryAttention(layer, **named)
        options = {"use_bias": layer["bias"], **ZEROS}
        return layers.MultiHeadAttention(heads, layer["features"] // heads, **options, **named)
    if kind in ("rows", "tokens"):
        channels, height, width = layer["input_shape"]
        shape = (height, width) if kind == "rows" else (height * width, channels)
        return layers.Reshape(shape, **named)
    if kind in ACTIVATIONS:
        return layers.Activation(kind, **named)
    if kind in SIMPLE:
        return SIMPLE[kind](**named)
    raise NotImplementedError(f"Keras module has no layer {kind!r}")


class TransposedConv2D(layers.Conv2DTranspose):
    """Keras's without padding, and then cut."""

    def __init__(self, layer: dict[str, Any], **options: Any) -> None:
        extra = tuple(layer["extra"])
        super().__init__(
            layer["out_channels"],
            tuple(layer["kernel"]),
            strides=tuple(layer["stride"]),
            output_padding=extra if any(extra) else None,
            use_bias=layer["bias"],
            **options,
        )
        parts = (layer["input_shape"][1:], layer["stride"], layer["kernel"])
        whole = ((size - 1) * stride + kernel for size, stride, kernel in zip(*parts))
        self._kept = tuple(
            slice(pad, size + extra - pad)
            for size, pad, extra in zip(whole, layer["padding"], layer["extra"])
        )

    def call(self, images: Any) -> Any:
        rows, columns = self._kept
        return super().call(images)[:, rows, columns]

    def compute_output_shape(self, shape: Any) -> Any:
        sizes = (part.stop - part.start for part in self._kept)
        return (shape[0], *sizes, self.filters)


class Gates:
    """A parameter of a GRU inside a variable of Keras: the gates are update, reset, new there.

    `row` is that of a bias in the variable, which has both.
    """

    def __init__(self, variable: Any, row: int | None) -> None:
        self.variable, self._row = variable, row
        self.path = variable.path
        self.shape = variable.shape if row is None else variable.shape[1:]

    @property
    def mask(self) -> Any:
        """Where the parameter is in the variable; None: it is the whole variable."""
        return (
            None if self._row is None else np.arange(self.variable.shape[0])[:, None] == self._row
        )

    def of(self, values: Any) -> Any:
        """The parameter in an array with the variable's shape."""
        return self._swapped(np.array(values) if self._row is None else np.array(values)[self._row])

    def assign(self, values: Any) -> None:
        """Set the parameter."""
        swapped = self._swapped(values)
        if self._row is not None:
            whole = np.array(self.variable)
            whole[self._row] = swapped
            swapped = whole
        self.variable.assign(swapped)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.of(self.variable)

    def _swapped(self, values: Any) -> Any:
        first, second, new = np.split(values, 3, axis=-1)
        return np.concatenate([second, first, new], axis=-1)


def _channel_shuffle(layer: dict[str, Any]) -> Any:
    channels, height, width = layer["input_shape"]
    groups = layer["groups"]
    parts = [
        layers.Reshape((height * width, groups, channels // groups)),
        layers.Permute((1, 3, 2)),
        layers.Reshape((height, width, channels)),
    ]
    return keras.Sequential(parts, name=layer["name"])


def _local_response_norm(layer: dict[str, Any], images: Any) -> Any:
    """In float32: Keras has none."""
    wide = ops.cast(images, "float32")
    channels, half = wide.shape[-1], layer["size"] // 2
    squares = ops.pad(ops.square(wide), ((0, 0), (0, 0), (0, 0), (half, half)))
    total = sum(squares[..., first : first + channels] for first in range(layer["size"]))
    factors = ops.power(layer["k"] + layer["alpha"] / layer["size"] * total, -layer["beta"])
    return ops.cast(wide * factors, images.dtype)


def _merged(images: Any) -> Any:
    """The four pixels of each square, one after the other in the channels."""
    return ops.concatenate([images[:, y::2, x::2] for x in (0, 1) for y in (0, 1)], -1)


ACTIVATIONS = ("relu", "tanh", "relu6", "sigmoid", "silu", "hard_swish")
SIMPLE: dict[str, Any] = {
    "flatten": layers.Flatten,
    "global_avg_pool2d": layers.GlobalAveragePooling2D,
    "scale": Scale,
    "class_token": ClassToken,
    "first_token": lambda name: layers.Lambda(lambda sequence: sequence[:, 0], name=name),
    "mean_token": layers.GlobalAveragePooling1D,
    "reverse": lambda name: layers.Lambda(lambda sequence: ops.flip(sequence, 1), name=name),
    "patch_merging": lambda name: layers.Lambda(_merged, name=name),
}
# The variables of a layer that hold a parameter, one after the other, by its canonical role.
VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "conv2d": {"weight": ("kernel",)},
    "conv2d_transposed": {"weight": ("kernel",)},
    "dense": {"weight": ("kernel",)},
    "batch_norm": {
        "weight": ("gamma",),
        "bias": ("beta",),
        "mean": ("moving_mean",),
        "variance": ("moving_variance",),
    },
    "layer_norm": {"weight": ("gamma",), "bias": ("beta",)},
    "group_norm": {"weight": ("gamma",), "bias": ("beta",)},
    "rms_norm": {"weight": ("scale",)},
    "tied_head": {},
    "scale": {"weight": ("factors",)},
    "class_token": {"weight": ("token",)},
    "embedding": {"weight": ("embeddings",)},
    "position_embedding": {"weight": ("table",)},
    "lstm": {
        "input_weight": ("cell.kernel",),
        "hidden_weight": ("cell.recurrent_kernel",),
        "bias": ("cell.bias",),
    },
    "window_attention": {
        "in_weight": ("in_dense.kernel",),
        "in_bias": ("in_dense.bias",),
        "out_weight": ("out_dense.kernel",),
        "out_bias": ("out_dense.bias",),
    },
    "gru": {
        "input_weight": ("cell.kernel",),
        "hidden_weight": ("cell.recurrent_kernel",),
        "bias": ("cell.bias",),
        "hidden_bias": ("cell.bias",),
    },
    "self_attention": {
        "in_weight": ("query_dense.kernel", "key_dense.kernel", "value_dense.kernel"),
        "in_bias": ("query_dense.bias", "key_dense.bias", "value_dense.bias"),
        "out_weight": ("output_dense.kernel",),
        "out_bias": ("output_dense.bias",),
    },
}


def variables(name: str, by_name: dict[str, Any], kinds: dict[str, str]) -> list[Any]:
    """The variables that hold the parameter or statistic with the canonical name `name`."""
    layer, role = name.split(".")
    attributes = VARIABLES[kinds[layer]].get(role, (role,))
    found = [attrgetter(attribute)(by_name[layer]) for attribute in attributes]
    if kinds[layer] == "gru":
        row = {"bias": 0, "hidden_bias": 1}.get(role)
        return [Gates(variable, row) for variable in found]
    return found


def frozen(model: Any) -> Callable[[Any], Any]:
    """The logits as a function of the inputs alone, to be compiled by the backend.

    The variables are constants of its graph, so that the compiler folds what depends on them alone.
    """
    states = [
        [np.array(variable) for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    ]

    def logits(inputs: Any) -> Any:
        constants = [[ops.convert_to_tensor(each) for each in state] for state in states]
        results, _ = model.stateless_call(*constants, inputs, training=False)
        return results

    return logits
