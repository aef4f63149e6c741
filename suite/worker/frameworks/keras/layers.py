"""A trial's layers as a functional Keras model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from ...attention import kv_heads, part_sizes, rotation, window_mask, window_rows
from ...layouts import paddings, same_paddings, shares, side_paddings
from ...protocol import Trial


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


class RotaryAttention(layers.Layer):
    """Attention with heads of keys that several heads of queries share, and with rotations."""

    def __init__(self, layer: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._layer, self._tables = layer, rotation(layer) or ()
        self._of_head = layer["features"] // layer["heads"]
        self._repeats = layer["heads"] // kv_heads(layer)
        sizes = dict(zip(("query", "key", "value"), part_sizes(layer)))
        self.query_dense, self.key_dense, self.value_dense, self.output_dense = (
            layers.Dense(size, use_bias=layer["bias"], **ZEROS, name=name)
            for name, size in {**sizes, "output": layer["features"]}.items()
        )

    def build(self, shape: Any) -> None:
        for each in (self.query_dense, self.key_dense, self.value_dense, self.output_dense):
            each.build(shape)

    def call(self, sequence: Any) -> Any:
        shape = (-1, self._layer["input_shape"][0])
        queries, keys, values = (
            ops.reshape(dense(sequence), (*shape, dense.units // self._of_head, self._of_head))
            for dense in (self.query_dense, self.key_dense, self.value_dense)
        )
        if self._tables:
            queries, keys = self._rotated(queries), self._rotated(keys)
        if self._repeats > 1:
            keys, values = (ops.repeat(each, self._repeats, axis=2) for each in (keys, values))
        causal = self._layer["causal"]
        mixed = ops.dot_product_attention(queries, keys, values, is_causal=causal)
        return self.output_dense(ops.reshape(mixed, (*shape, self._layer["features"])))

    def _rotated(self, heads: Any) -> Any:
        """Queries or keys (N, length, heads, features of a head), rotated by their position."""
        wide, (length, size) = ops.cast(heads, self.variable_dtype), (heads.shape[1], self._of_head)
        cosines, sines = (
            ops.convert_to_tensor(each[:, None], self.variable_dtype) for each in self._tables
        )
        interleaved = self._layer["interleaved"]
        shape = (-1, length, heads.shape[2])
        pairs = ops.reshape(wide, (*shape, size // 2, 2) if interleaved else (*shape, 2, size // 2))
        axis = 4 if interleaved else 3
        first, second = (ops.take(pairs, number, axis=axis) for number in (0, 1))
        turned = first * cosines - second * sines, second * cosines + first * sines
        return ops.cast(ops.reshape(ops.stack(turned, axis), (*shape, size)), heads.dtype)


class WindowAttention(layers.Layer):
    """Attention among the pixels of each window of images (N, height, width, features)."""

    def __init__(self, layer: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._layer, self._index, self._mask = layer, window_rows(layer), window_mask(layer)
        features = layer["features"]
        self.in_dense = layers.Dense(3 * features, **ZEROS, name="in")
        self.out_dense = layers.Dense(features, **ZEROS, name="out")

    def build(self, shape: Any) -> None:
        rows, columns = self._layer["window"]
        distances = (2 * rows - 1) * (2 * columns - 1)
        size = (distances, self._layer["heads"])
        self.table = self.add_weight(shape=size, initializer="zeros", name="table")
        for each in (self.in_dense, self.out_dense):
            each.build((None, rows * columns, self._layer["features"]))

    def call(self, images: Any) -> Any:
        (features, height, width), (rows, columns) = (
            self._layer["input_shape"],
            self._layer["window"],
        )
        split, shift = (height // rows, width // columns), self._layer["shift"]
        moved = ops.roll(images, [-each for each in shift], (1, 2)) if any(shift) else images
        windows = ops.reshape(moved, (-1, split[0], rows, split[1], columns, features))
        windows = ops.transpose(windows, (0, 1, 3, 2, 4, 5))
        mixed = self._mixed(ops.reshape(windows, (-1, rows * columns, features)))
        mixed = ops.reshape(self.out_dense(mixed), (-1, *split, rows, columns, features))
        result = ops.transpose(mixed, (0, 1, 3, 2, 4, 5))
        result = ops.reshape(result, (-1, height, width, features))
        return ops.roll(result, list(shift), (1, 2)) if any(shift) else result

    def _mixed(self, windows: Any) -> Any:
        """The attention in windows (N x windows, pixels, features)."""
        pixels, features = windows.shape[1:]
        heads, mask = self._layer["heads"], self._mask
        parts = ops.reshape(self.in_dense(windows), (-1, pixels, 3, heads, features // heads))
        queries, keys, values = (
            ops.transpose(parts[:, :, number], (0, 2, 1, 3)) for number in range(3)
        )
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))
        scores = ops.cast(scores, self.variable_dtype) / (features // heads) ** 0.5
        bias = ops.reshape(ops.take(self.table, self._index, axis=0), (pixels, pixels, heads))
        bias = ops.cast(ops.transpose(bias, (2, 0, 1)), self.variable_dtype)
        if mask is not None:
            bias = bias + ops.convert_to_tensor(mask, self.variable_dtype)
            shaped = ops.reshape(scores, (-1, len(mask), heads, pixels, pixels))
            scores = ops.reshape(shaped + bias, (-1, heads, pixels, pixels))
        else:
            scores = scores + bias
        shares = ops.cast(ops.softmax(scores), values.dtype)
        mixed = ops.transpose(ops.matmul(shares, values), (0, 2, 1, 3))
        return ops.reshape(mixed, (-1, pixels, features))


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
    return keras.Model(inputs, _series(trial.layers, inputs, by_name, trial.seed)), by_name


def _series(series: list[dict[str, Any]], values: Any, by_name: dict[str, Any], seed: int) -> Any:
    """The result of the layers for the input `values`; the layers are added to `by_name`."""
    for layer in series:
        kind = layer["kind"]
        if "branches" in layer:
            results = [_series(branch, values, by_name, seed) for branch in layer["branches"]]
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
        elif isinstance(lowered, layers.MultiHeadAttention):
            values = lowered(values, values, use_causal_mask=layer["causal"])
        else:
            values = lowered(values)
    return values


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
ZEROS = {"kernel_initializer": "zeros"}


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
        self._variable, self._row = variable, row
        self.path = variable.path
        self.shape = variable.shape if row is None else variable.shape[1:]

    def of(self, values: Any) -> Any:
        """The parameter in an array with the variable's shape."""
        return self._swapped(np.array(values) if self._row is None else np.array(values)[self._row])

    def assign(self, values: Any) -> None:
        """Set the parameter."""
        swapped = self._swapped(values)
        if self._row is not None:
            whole = np.array(self._variable)
            whole[self._row] = swapped
            swapped = whole
        self._variable.assign(swapped)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.of(self._variable)

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


def _merged(images: Any) -> Any:
    """The four pixels of each square, one after the other in the channels."""
    return ops.concatenate([images[:, y::2, x::2] for x in (0, 1) for y in (0, 1)], -1)


ACTIVATIONS = ("relu", "tanh", "relu6", "sigmoid", "silu", "hard_sigmoid", "hard_swish")
SIMPLE: dict[str, Any] = {
    "flatten": layers.Flatten,
    "global_avg_pool2d": layers.GlobalAveragePooling2D,
    "scale": Scale,
    "class_token": ClassToken,
    "first_token": lambda name: layers.Lambda(lambda sequence: sequence[:, 0], name=name),
    "mean_token": layers.GlobalAveragePooling1D,
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
