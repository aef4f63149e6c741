"""A trial's layers as functions of TensorFlow's operations and of variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ...layouts import kept, paddings, same_paddings, shares, side_paddings
from . import distributed
from .attention import Masks, self_attention, window_attention
from .products import Cast, Variables, add_bias, product, widened


@dataclass
class Pass:
    """One pass through the model: its mode, masks, and the changes of the running statistics."""

    training: bool
    masks: Masks = field(default_factory=dict)  # of sequences with padding
    updates: list[tuple[Any, Any]] = field(default_factory=list)  # variable, value to add to it

    def update(self) -> None:
        """Change the running statistics."""
        for variable, change in self.updates:
            variable.assign_add(change)


Layer = Callable[[Any, Pass], Any]


Moments = Callable[[Any], tuple[Any, Any]]  # from a batch to its mean and variance


@dataclass(frozen=True)
class CastVariable:
    """A variable that operations read through a cast."""

    variable: Any
    cast: Cast


def _tensor(
    value: CastVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    return value.cast(value.variable)


tf.register_tensor_conversion_function(CastVariable, _tensor)
# The results of these are some of their inputs: the same whether rounded before or after.
SELECTING = (
    *("relu", "max_pool2d", "flatten", "tokens", "rows", "first_token", "reverse"),
    *("channel_slice", "channel_shuffle", "zero_padding2d", "cropping2d", "patch_merging"),
)
# Their parameters are read in float32.
UNROUNDED = (
    *("batch_norm", "layer_norm", "group_norm", "rms_norm", "scale"),
    *("embedding", "class_token", "position_embedding"),
)


def unchanged(values: Any) -> Any:
    """The cast of a precision without casts."""
    return values


def to_bfloat16(values: Any) -> Any:
    """The values in bfloat16."""
    return tf.cast(values, tf.bfloat16)


def rounded(values: Any) -> Any:
    """The values and their gradient, rounded to bfloat16 but in float32."""
    return tf.cast(tf.cast(values, tf.bfloat16), tf.float32)


def series(
    layers: list[dict[str, Any]],
    variables: Variables,
    slice_size: int | None,
    cast: Cast | None = None,
) -> Layer:
    """The layers as one function; `cast` converts computed results, and parameters of products.

    `slice_size` samples share the statistics of batch norm; None: the whole batch of several ranks.
    """
    lowered = [_lower(layer, variables, slice_size, cast) for layer in layers]
    # The result of a max pool is rounded rather than its larger input.
    unrounded = {n for n, following in enumerate(layers[1:]) if following["kind"] in SELECTING}

    def run(values: Any, through: Pass) -> Any:
        for number, layer in enumerate(lowered):
            values = layer(values, through)
            values = cast(values) if cast and number not in unrounded else values
        return values

    return run


def _lower(
    layer: dict[str, Any], variables: Variables, slice_size: int | None, cast: Cast | None
) -> Layer:
    kind, name = layer["kind"], layer["name"]
    own = {key.split(".")[1]: v for key, v in variables.items() if key.split(".")[0] == name}
    if kind == "tied_head":
        own["weight"] = variables[f"{layer['embedding']}.weight"]
    if "branches" in layer:
        branches = [series(branch, variables, slice_size, cast) for branch in layer["branches"]]
        join = JOINS[kind]
        return lambda x, through: join([branch(x, through) for branch in branches])
    if kind == "batch_norm":
        if slice_size is None:
            return _plain_batch_norm(layer, own, _moments_of_all_ranks)
        if not layer["images"]:
            return _plain_batch_norm(layer, own, _moments_of_vectors)
        return _batch_norm(layer, own, slice_size)
    if kind == "dropout":
        return _dropout(layer)
    if kind == "hard_sigmoid":
        return lambda x, through: tf.nn.relu6(6 * layer["slope"] * x + 3) / 6
    if kind == "leaky_relu":
        return lambda x, through: tf.nn.leaky_relu(x, layer["slope"])
    if cast is not None and kind not in UNROUNDED:
        own = {role: CastVariable(variable, cast) for role, variable in own.items()}
    if layer.get("padding_id") is not None:
        return _of_padded(layer, own, cast or unchanged)
    function = _function(layer, own, cast or unchanged)
    return lambda x, through: function(x)


def _of_padded(layer: dict[str, Any], own: Variables, cast: Cast) -> Layer:
    """A layer of sequences with padding."""
    if layer["kind"] == "mean_token":
        return lambda x, through: _mean_of_real(x, through.masks[False][:, 0, 0, :, None])
    causal = layer["causal"]
    return lambda x, through: self_attention(x, layer, own, cast, through.masks[causal])


def _mean_of_real(sequence: Any, real: Any) -> Any:
    """The mean of the members of a sequence that are not padding."""
    wide = widened(sequence)
    real = tf.cast(real, wide.dtype)
    total = tf.reduce_sum(wide * real, 1) / tf.reduce_sum(real, 1)
    return tf.cast(total, sequence.dtype)


def _function(layer: dict[str, Any], own: Variables, cast: Cast) -> Callable[[Any], Any]:
    """A layer that computes the same in training and in inference; `cast` as in `series`."""
    kind = layer["kind"]
    weight, bias = own.get("weight"), own.get("bias")
    if kind == "conv2d":
        return _convolution(layer, weight, bias)
    if kind == "conv2d_transposed":
        return _transposed_convolution(layer, weight, bias)
    if kind == "upsample":
        return _upsample(layer)
    if kind == "group_norm":
        return _group_norm(layer, own)
    if kind == "local_response_norm":
        return _local_response_norm(layer)
    if kind == "rms_norm":
        return lambda x: _rms_norm(x, own["weight"], layer["epsilon"])
    if kind == "max_pool2d":
        size, strides, padding = layer["kernel"], layer["stride"], _padding(layer)
        if isinstance(padding, str):
            return lambda x: tf.nn.max_pool2d(x, size, strides, padding)
        # Padded separately, because XLA accepts only the two keywords.
        return lambda x: tf.nn.max_pool2d(
            tf.pad(x, padding, constant_values=x.dtype.min), size, strides, "VALID"
        )
    if kind == "avg_pool2d":
        return _average_pool(layer)
    if kind == "channel_slice":
        return lambda x: x[..., layer["start"] : layer["stop"]]
    if kind == "channel_shuffle":
        return _channel_shuffle(layer)
    if kind == "zero_padding2d":
        widths = [(0, 0), *side_paddings(layer), (0, 0)]
        return lambda x: tf.pad(x, widths)
    if kind == "cropping2d":
        rows, columns = kept(layer)
        return lambda x: x[:, rows, columns]
    if kind == "scale":
        factors = own["weight"]
        return lambda x: tf.cast(tf.cast(x, factors.dtype) * factors, x.dtype)
    if kind == "gelu":
        return lambda x: tf.nn.gelu(x, layer["approximate"])
    if kind == "dense":
        return lambda x: add_bias(product(x, weight), bias)
    if kind == "layer_norm":
        return lambda x: _layer_norm(x, weight, bias, layer["epsilon"])
    if kind == "flatten":
        features = math.prod(layer["input_shape"])
        return lambda x: tf.reshape(x, [-1, features])
    if kind == "tokens":
        channels, height, width = layer["input_shape"]
        return lambda x: tf.reshape(x, [-1, height * width, channels])
    if kind == "class_token":
        shape = [1, layer["features"]]
        return lambda x: tf.concat(
            [tf.cast(tf.broadcast_to(weight, [tf.shape(x)[0], *shape]), x.dtype), x], 1
        )
    if kind == "position_embedding":
        table = own["weight"]
        return lambda x: tf.cast(tf.cast(x, table.dtype) + table, x.dtype)
    if kind == "embedding":
        return lambda x: tf.gather(weight, x)
    if kind == "tied_head":
        return lambda x: add_bias(product(x, weight, transpose_b=True), bias)
    if kind == "self_attention":
        return lambda x: self_attention(x, layer, own, cast)
    if kind == "window_attention":
        return lambda x: window_attention(x, layer, own, cast)
    if kind in CELLS:
        return lambda x: _recurrent(x, layer, own, cast)
    if kind in SIMPLE:
        return SIMPLE[kind]
    raise NotImplementedError(f"TensorFlow module has no layer {kind!r}")


JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "add": tf.add_n,
    "multiply": lambda results: math.prod(results[1:], start=results[0]),
    "concat": lambda results: tf.concat(results, -1),
}
SIMPLE: dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "sigmoid": tf.sigmoid,
    "silu": tf.nn.silu,
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3) / 6,
    "tanh": tf.nn.tanh,
    "global_avg_pool2d": lambda images: tf.reduce_mean(images, [1, 2]),
    "rows": lambda images: tf.squeeze(images, 3),
    "first_token": lambda sequence: sequence[:, 0],
    "mean_token": lambda sequence: tf.reduce_mean(sequence, 1),
    "reverse": lambda sequence: tf.reverse(sequence, [1]),
    "patch_merging": lambda images: _merged(images),
}


def _convolution(layer: dict[str, Any], weight: Any, bias: Any) -> Callable[[Any], Any]:
    strides, padding, groups = layer["stride"], _padding(layer), layer["groups"]
    options = {"dilations": layer["dilation"]}
    if groups == layer["in_channels"] and groups > 1 and strides[0] == strides[1]:
        # TensorFlow's own operation for one input channel in each group.
        height, width = layer["kernel"]
        shape = [height, width, groups, layer["out_channels"] // groups]
        steps = [1, *strides, 1]

        def convolve(x: Any, padding: str) -> Any:
            kernel = tf.reshape(tf.convert_to_tensor(weight), shape)
            return tf.nn.depthwise_conv2d(x, kernel, steps, padding, **options)
    else:

        def convolve(x: Any, padding: str) -> Any:
            return tf.nn.conv2d(x, weight, strides, padding, **options)

    if isinstance(padding, str):
        return lambda x: add_bias(convolve(x, padding), bias)
    # Padded separately, because with paddings in numbers conv2d is several times slower on a CPU.
    return lambda x: add_bias(convolve(tf.pad(x, padding), "VALID"), bias)


def _transposed_convolution(layer: dict[str, Any], weight: Any, bias: Any) -> Callable[[Any], Any]:
    """Computed without padding, and then cut."""
    parts = (layer["input_shape"][1:], layer["stride"], layer["kernel"], layer["extra"])
    sizes = [(n - 1) * stride + kernel + extra for n, stride, kernel, extra in zip(*parts)]
    rows, columns = (slice(pad, n - pad) for n, pad in zip(sizes, layer["padding"]))

    def run(images: Any) -> Any:
        shape = [tf.shape(images)[0], *sizes, layer["out_channels"]]
        whole = tf.nn.conv2d_transpose(images, weight, shape, layer["stride"], "VALID")
        return add_bias(whole[:, rows, columns] if any(layer["padding"]) else whole, bias)

    return run


def _upsample(layer: dict[str, Any]) -> Callable[[Any], Any]:
    rows, columns = layer["factor"]
    if layer["mode"] == "nearest":
        return lambda x: tf.repeat(tf.repeat(x, rows, 1), columns, 2)
    _, height, width = layer["input_shape"]
    size = [rows * height, columns * width]
    return lambda x: tf.cast(tf.image.resize(x, size), x.dtype)


def _average_pool(layer: dict[str, Any]) -> Callable[[Any], Any]:
    size, strides, pairs = layer["kernel"], layer["stride"], _pairs(layer)
    share, padded = shares(layer), any(map(any, pairs))
    if share is None:
        # Padded separately, because the divisor of avg_pool2d does not count its own padding.
        return lambda x: tf.nn.avg_pool2d(tf.pad(x, pairs) if padded else x, size, strides, "VALID")
    if _padding(layer) == "SAME":
        return lambda x: tf.nn.avg_pool2d(x, size, strides, "SAME")
    factors = (1 / share)[..., None]
    return lambda x: (
        tf.nn.avg_pool2d(tf.pad(x, pairs), size, strides, "VALID") * tf.cast(factors, x.dtype)
    )


def _channel_shuffle(layer: dict[str, Any]) -> Callable[[Any], Any]:
    channels, height, width = layer["input_shape"]
    groups = layer["groups"]

    def run(images: Any) -> Any:
        parts = tf.reshape(images, [-1, height, width, groups, channels // groups])
        return tf.reshape(tf.transpose(parts, [0, 1, 2, 4, 3]), [-1, height, width, channels])

    return run


def _dropout(layer: dict[str, Any]) -> Layer:
    rate, ones = layer["rate"], [1] * len(layer["input_shape"])

    def run(values: Any, through: Pass) -> Any:
        if not through.training:
            return values
        shape = [tf.shape(values)[0], *ones] if layer["whole"] else None
        return tf.nn.dropout(values, rate, noise_shape=shape)

    return run


def _padding(layer: dict[str, Any]) -> Any:
    """The padding as a keyword of TensorFlow, or in numbers where no keyword describes it."""
    pairs = paddings(layer)
    if not any(map(any, pairs)):
        return "VALID"
    return "SAME" if pairs == same_paddings(layer) else _pairs(layer)


def _pairs(layer: dict[str, Any]) -> list[list[int]]:
    """The padding before and after each axis of (batch, height, width, channels)."""
    return [[0, 0], *map(list, paddings(layer)), [0, 0]]


def _batch_norm(layer: dict[str, Any], own: Variables, slice_size: int) -> Layer:
    values = slice_size * math.prod(layer["input_shape"][1:])
    biased = (values - 1) / values  # the fused operation returns the unbiased variance

    def run(images: Any, through: Pass) -> Any:
        moments = {} if through.training else {"mean": own["mean"], "variance": own["variance"]}
        normed, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            images,
            own["weight"],
            own["bias"],
            **moments,
            epsilon=layer["epsilon"],
            is_training=through.training,
        )
        for running, batch in ((own["mean"], mean), (own["variance"], biased * variance)):
            through.updates.append((running, layer["momentum"] * (batch - running)))
        return normed

    return run


def _plain_batch_norm(layer: dict[str, Any], own: Variables, moments: Moments) -> Layer:
    """Batch norm without TensorFlow's fused operation; `moments` are those of a batch."""

    def run(values: Any, through: Pass) -> Any:
        wide = tf.cast(values, own["weight"].dtype)
        mean, variance = own["mean"], own["variance"]
        if through.training:
            mean, variance = moments(wide)
            for running, batch in ((own["mean"], mean), (own["variance"], variance)):
                through.updates.append((running, layer["momentum"] * (batch - running)))
        weights = own["bias"], own["weight"]
        normed = tf.nn.batch_normalization(wide, mean, variance, *weights, layer["epsilon"])
        return tf.cast(normed, values.dtype)

    return run


def _moments_of_vectors(values: Any) -> tuple[Any, Any]:
    """The mean and variance of each feature; the fused operation is one of images."""
    mean, variance = tf.nn.moments(values, [0])
    return mean, variance


def _moments_of_all_ranks(values: Any) -> tuple[Any, Any]:
    """The mean and variance over the whole batch of several ranks."""
    axes = [*range(values.shape.rank - 1)]
    squares = tf.reduce_mean(tf.square(values), axes)
    mean, square = distributed.mean([tf.reduce_mean(values, axes), squares])
    return mean, tf.maximum(square - tf.square(mean), 0)


def _layer_norm(values: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    wide = tf.cast(values, weight.dtype)
    mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
    normed = tf.nn.batch_normalization(wide, mean, variance, bias, weight, epsilon)
    return tf.cast(normed, values.dtype)


def _group_norm(layer: dict[str, Any], own: Variables) -> Callable[[Any], Any]:
    (channels, height, width), groups = layer["input_shape"], layer["groups"]
    split = [groups, channels // groups]

    def run(images: Any) -> Any:
        wide = tf.reshape(tf.cast(images, own["weight"].dtype), [-1, height, width, *split])
        mean, variance = tf.nn.moments(wide, [1, 2, 4], keepdims=True)
        bias, weight = (tf.reshape(own[role], split) for role in ("bias", "weight"))
        normed = tf.nn.batch_normalization(wide, mean, variance, bias, weight, layer["epsilon"])
        return tf.cast(tf.reshape(normed, [-1, height, width, channels]), images.dtype)

    return run


def _local_response_norm(layer: dict[str, Any]) -> Callable[[Any], Any]:
    """TensorFlow's own, whose alpha is not divided by the size; it takes float32."""
    size, beta = layer["size"], layer["beta"]
    numbers = {"bias": layer["k"], "alpha": layer["alpha"] / size, "beta": beta}
    return lambda x: tf.cast(
        tf.nn.local_response_normalization(tf.cast(x, "float32"), size // 2, **numbers), x.dtype
    )


def _rms_norm(values: Any, weight: Any, epsilon: float) -> Any:
    wide = tf.cast(values, weight.dtype)
    square = tf.reduce_mean(tf.square(wide), -1, keepdims=True)
    return tf.cast(wide * tf.math.rsqrt(square + epsilon) * weight, values.dtype)


def _merged(images: Any) -> Any:
    """The four pixels of each square, one after the other in the channels."""
    return tf.concat([images[:, y::2, x::2] for x in (0, 1) for y in (0, 1)], -1)


def _recurrent(sequence: Any, layer: dict[str, Any], own: Variables, cast: Cast) -> Any:
    """An unrolled LSTM or GRU: on a CPU, TensorFlow's BlockLSTMV2 takes about twice as long."""
    inputs = cast(product(sequence, own["input_weight"]) + own["bias"])
    hidden = tf.zeros([tf.shape(sequence)[0], layer["hidden"]], sequence.dtype)
    states, cell = [], widened(hidden)
    for step in tf.unstack(inputs, axis=1):
        remembered = tf.matmul(hidden, own["hidden_weight"])
        hidden, cell = CELLS[layer["kind"]](step, remembered, cell, own)
        hidden = cast(tf.cast(hidden, sequence.dtype))
        states.append(hidden)
    return tf.stack(states, 1) if layer["sequence"] else hidden


def _lstm(entered: Any, remembered: Any, cell: Any, own: Variables) -> tuple[Any, Any]:
    """The next hidden state and cell."""
    admit, keep, candidate, show = tf.split(widened(entered + remembered), 4, -1)
    cell = tf.sigmoid(keep) * cell + tf.sigmoid(admit) * tf.tanh(candidate)
    return tf.sigmoid(show) * tf.tanh(cell), cell


def _gru(entered: Any, remembered: Any, before: Any, own: Variables) -> tuple[Any, Any]:
    """The next hidden state, twice: for the next step it is in float32."""
    of_input = tf.split(widened(entered), 3, -1)
    of_hidden = tf.split(widened(remembered + own["hidden_bias"]), 3, -1)
    reset, update = (tf.sigmoid(one + other) for one, other in zip(of_input[:2], of_hidden[:2]))
    new = tf.tanh(of_input[2] + reset * of_hidden[2])
    after = new + update * (before - new)
    return after, after


CELLS = {"lstm": _lstm, "gru": _gru}
