"""A trial's layers as Flax NNX modules and functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from flax import nnx
from jax import lax
from jax import numpy as jnp

from ...layouts import kept, paddings, side_paddings, transposed_paddings
from ...protocol import Trial
from . import matmul, rounding
from .attention import Masks, SelfAttention, WindowAttention, key_masks
from .distributed import AXIS

PREFIX = "layer_"  # of attributes: a layer's name may be that of a method of modules


class Model(nnx.Module):
    """All layers by name; the trial defines their order and branches."""

    def __init__(self, trial: Trial) -> None:
        self.rngs = nnx.Rngs(trial.seed + trial.rank)  # other dropout masks on each rank
        for layer in trial.leaves():
            # A tied head is a function of its embedding; it has a bias at most.
            if layer["kind"] != "tied_head" or layer["bias"]:
                setattr(self, PREFIX + layer["name"], _lower(layer, trial, self.rngs))


def build(trial: Trial) -> Model:
    """The model with its initial state, by one compiled program in place of one for each shape."""
    model: Model = nnx.jit(lambda: Model(trial))()
    return model


def logits_of(model: Model, trial: Trial, inputs: Any) -> Any:
    """The logits (N, classes). A reference that simulates a rounding rounds each result."""
    bits, masks = trial.simulated_bits, key_masks(trial, inputs)
    if not bits:
        return series(model, trial.layers, inputs, masks)
    rounded = partial(rounding.rounded, bits)
    exact = jnp.issubdtype(inputs.dtype, jnp.integer)  # tokens
    return series(model, trial.layers, inputs if exact else rounded(inputs), masks, rounded)


def series(
    model: Model,
    layers: list[dict[str, Any]],
    values: Any,
    masks: Masks,
    rounded: Callable[[Any], Any] = lambda values: values,
) -> Any:
    """The result of `layers`, one after the other, for `values`; `rounded` is applied to each.

    Layers of sequences with padding get the `masks` of the batch.
    """
    for layer in layers:
        if "branches" in layer:
            results = [
                series(model, branch, values, masks, rounded) for branch in layer["branches"]
            ]
            values = JOINS[layer["kind"]](results)
        elif layer["kind"] == "tied_head":
            values = getattr(model, PREFIX + layer["embedding"]).attend(values)
            if layer["bias"]:
                values = getattr(model, PREFIX + layer["name"])(values)
        elif layer.get("padding_id") is not None:
            values = getattr(model, PREFIX + layer["name"])(values, masks)
        else:
            values = getattr(model, PREFIX + layer["name"])(values)
        values = rounded(values)
    return values


class BatchNorm(nnx.BatchNorm):
    """Flax's batch norm, applied as one multiplication and one addition.

    Its gradient has two sums over the batch; that of (x - mean) * factor + bias has three.

    A batch may have several slices, each with its own mean and variance, as on several ranks. The
    running statistics are those of the first.
    """

    slices = 1

    def __call__(self, images: Any) -> Any:
        mean, variance = self.mean[...], self.var[...]
        values = images.astype(self.param_dtype)
        sliced = self.slices > 1 and not self.use_running_average
        if sliced:  # (slices, samples of a slice, height, width, channels)
            values = values.reshape(self.slices, -1, *values.shape[1:])
        if not self.use_running_average:
            batch = tuple(range(1 if sliced else 0, values.ndim - 1))
            kept, now = self.momentum, 1 - self.momentum
            mean = values.mean(batch, keepdims=sliced)
            square = (values * values).mean(batch, keepdims=sliced)
            if self.slices == 0:
                mean, square = lax.pmean((mean, square), AXIS)
            variance = square - mean * mean
            variance = jnp.maximum(0, variance)
            first = (0,) * (mean.ndim - 1)
            self.mean[...] = kept * self.mean[...] + now * mean[first]
            self.var[...] = kept * self.var[...] + now * variance[first]
        factor = self.scale[...] * lax.rsqrt(variance + self.epsilon)
        normed = values * factor + (self.bias[...] - mean * factor)
        return normed.reshape(images.shape).astype(images.dtype)


class Biased(nnx.Module):
    """A layer with products in bfloat16, and a bias that is added in float32.

    In bfloat16, XLA on a CPU would also sum the bias's gradient over the batch in bfloat16.
    """

    def __init__(self, product: Any, size: int, dtype: str) -> None:
        self.product = product
        self.bias = nnx.Param(jnp.zeros(size, dtype))

    def __call__(self, values: Any) -> Any:
        result = self.product(values)
        bias = self.bias[...]
        return (result.astype(bias.dtype) + bias).astype(result.dtype)


def is_biased(layer: dict[str, Any], role: str, trial: Trial) -> bool:
    """Whether the product with the weight `role` of a layer is made as `Biased`."""
    if layer["kind"] == "lstm":
        return trial.mixed and role == "hidden_weight"  # the other product has no bias
    always = layer["kind"] in ("gru", "window_attention")
    return trial.mixed and bool(always or layer.get("bias"))


class InFull:
    """A norm of Flax in float32. In bfloat16 Flax would round its scale and bias too."""

    param_dtype: Any

    def __call__(self, values: Any) -> Any:
        normed = super().__call__(values.astype(self.param_dtype))  # type: ignore[misc]
        return normed.astype(values.dtype)


class LayerNorm(InFull, nnx.LayerNorm):
    """Over the last axis."""


class GroupNorm(InFull, nnx.GroupNorm):
    """Over height, width and the channels of a group."""


class RmsNorm(InFull, nnx.RMSNorm):
    """By the root of the mean of the squares on the last axis."""


def average_pool(values: Any, **sizes: Any) -> Any:
    """Flax's average pool, which adds in float32: see `Biased`."""
    wide = values.astype(jnp.promote_types(values.dtype, jnp.float32))
    return nnx.avg_pool(wide, **sizes).astype(values.dtype)


class Embedding(nnx.Embed):
    """Flax's embedding, whose rows are looked up in float32: see `Biased`."""

    def __call__(self, tokens: Any) -> Any:
        return jnp.take(self.embedding[...], tokens, axis=0).astype(self.dtype)


def _merged(images: Any) -> Any:
    """The four pixels of each square, one after the other in the channels."""
    parts = [images[:, y::2, x::2] for x in (0, 1) for y in (0, 1)]
    return jnp.concatenate(parts, -1)


class Scale(nnx.Module):
    """A factor for each channel, in float32."""

    def __init__(self, channels: int, dtype: str) -> None:
        self.weight = nnx.Param(jnp.ones(channels, dtype))

    def __call__(self, images: Any) -> Any:
        weight = self.weight[...]
        return (images.astype(weight.dtype) * weight).astype(images.dtype)


class Bias(nnx.Module):
    """A bias, added in float32."""

    def __init__(self, size: int, dtype: str) -> None:
        self.bias = nnx.Param(jnp.zeros(size, dtype))

    def __call__(self, values: Any) -> Any:
        bias = self.bias[...]
        return (values.astype(bias.dtype) + bias).astype(values.dtype)


class ClassToken(nnx.Module):
    def __init__(self, layer: dict[str, Any], dtype: str) -> None:
        self.weight = nnx.Param(jnp.zeros(layer["features"], dtype))

    def __call__(self, sequence: Any) -> Any:
        token = jnp.broadcast_to(self.weight[...], (len(sequence), 1, sequence.shape[-1]))
        return jnp.concatenate([token.astype(sequence.dtype), sequence], 1)


class PositionEmbedding(nnx.Module):
    def __init__(self, layer: dict[str, Any], dtype: str) -> None:
        self.weight = nnx.Param(jnp.zeros((layer["length"], layer["features"]), dtype))

    def __call__(self, sequence: Any) -> Any:
        weight = self.weight[...]
        return (sequence.astype(weight.dtype) + weight).astype(sequence.dtype)


class Recurrent(nnx.Module):
    """An LSTM or a GRU; with `sequence`, the hidden states of all members."""

    def __init__(self, layer: dict[str, Any], trial: Trial, **common: Any) -> None:
        size = layer["hidden"]
        self.whole = layer["sequence"]
        if layer["kind"] == "lstm":
            cell = nnx.OptimizedLSTMCell(layer["in_features"], size, **common)
            if is_biased(layer, "hidden_weight", trial):
                product = nnx.Linear(size, 4 * size, use_bias=False, **common)
                cell.dense_h = Biased(product, 4 * size, trial.dtype)
        else:
            cell = nnx.GRUCell(layer["in_features"], size, **common)
            # Flax's has no bias in the product with the hidden state.
            cell.dense_i = _affine(layer["in_features"], 3 * size, trial, **common)
            cell.dense_h = _affine(size, 3 * size, trial, **common)
        self.layer = nnx.RNN(cell)

    def __call__(self, sequence: Any) -> Any:
        states = self.layer(sequence)
        return states if self.whole else states[:, -1]


def _affine(inputs: int, outputs: int, trial: Trial, **common: Any) -> Any:
    """A dense layer with a bias."""
    if not trial.mixed:
        return nnx.Linear(inputs, outputs, **common)
    product = nnx.Linear(inputs, outputs, use_bias=False, **common)
    return Biased(product, outputs, trial.dtype)


def _lower(layer: dict[str, Any], trial: Trial, rngs: nnx.Rngs) -> Callable[..., Any]:
    """The module or function of a layer."""
    kind = layer["kind"]
    # Kernels start at zero, because the weights come from the file.
    compute = "bfloat16" if trial.mixed else trial.dtype
    dtypes = {"dtype": compute, "param_dtype": trial.dtype, "rngs": rngs}
    common = {**dtypes, "kernel_init": nnx.initializers.zeros}
    if kind in PRODUCTS and is_biased(layer, "weight", trial):
        product = _lower({**layer, "bias": False}, trial, rngs)
        return Biased(product, layer[PRODUCTS[kind]], trial.dtype)
    if kind == "conv2d":
        return nnx.Conv(
            layer["in_channels"],
            layer["out_channels"],
            tuple(layer["kernel"]),
            tuple(layer["stride"]),
            padding=paddings(layer),
            use_bias=layer["bias"],
            feature_group_count=layer["groups"],
            kernel_dilation=tuple(layer["dilation"]),
            conv_general_dilated=_convolution(trial),
            **common,
        )
    if kind == "conv2d_transposed":
        return nnx.ConvTranspose(
            layer["in_channels"],
            layer["out_channels"],
            tuple(layer["kernel"]),
            tuple(layer["stride"]),
            padding=transposed_paddings(layer),
            use_bias=layer["bias"],
            transpose_kernel=True,
            **common,
        )
    if kind == "upsample":
        return partial(_upsampled, layer)
    if kind in ("max_pool2d", "avg_pool2d"):
        sizes: dict[str, Any] = {"padding": paddings(layer), "strides": tuple(layer["stride"])}
        sizes["window_shape"] = tuple(layer["kernel"])
        if kind == "avg_pool2d":
            return partial(average_pool, **sizes, count_include_pad=layer["count_padding"])
        return partial(matmul.max_pool if trial.variant == "matmul" else nnx.max_pool, **sizes)
    if kind == "dense":
        features = layer["in_features"], layer["out_features"]
        return nnx.Linear(*features, use_bias=layer["bias"], **common)
    if kind == "batch_norm":
        numbers = {"epsilon": layer["epsilon"], "momentum": 1 - layer["momentum"]}
        norm = BatchNorm(layer["channels"], **numbers, **dtypes)
        norm.slices = trial.own_slices
        return norm
    in_full = {**dtypes, "dtype": trial.dtype, "epsilon": layer.get("epsilon")}
    if kind == "layer_norm":
        return LayerNorm(layer["features"], **in_full)
    if kind == "group_norm":
        return GroupNorm(layer["channels"], num_groups=layer["groups"], **in_full)
    if kind == "local_response_norm":
        return partial(_local_response_norm, layer)
    if kind == "rms_norm":
        return RmsNorm(layer["features"], **in_full)
    if kind == "channel_slice":
        return lambda images: images[..., layer["start"] : layer["stop"]]
    if kind == "channel_shuffle":
        return partial(_channel_shuffle, layer["groups"])
    if kind == "zero_padding2d":
        return partial(jnp.pad, pad_width=((0, 0), *side_paddings(layer), (0, 0)))
    if kind == "cropping2d":
        rows, columns = kept(layer)
        return lambda images: images[:, rows, columns]
    if kind == "scale":
        return Scale(layer["channels"], trial.dtype)
    if kind == "gelu":
        return partial(nnx.gelu, approximate=layer["approximate"])
    if kind == "dropout":
        axes = range(1, len(layer["input_shape"]) + 1) if layer["whole"] else ()
        return nnx.Dropout(layer["rate"], broadcast_dims=tuple(axes), rngs=rngs)
    if kind == "hard_sigmoid":
        scale = 6 * layer["slope"]
        return lambda values: jax.nn.hard_sigmoid(scale * values)
    if kind == "leaky_relu":
        slope = layer["slope"]
        return lambda values: jnp.where(values > 0, values, slope * values)  # jax.nn's is 1 x at 0
    if kind == "self_attention":
        return SelfAttention(layer, trial, partial(_dense, layer, trial, rngs))
    if kind == "mean_token" and layer["padding_id"] is not None:
        return _mean_of_real
    if kind == "window_attention":
        return WindowAttention(layer, trial, partial(_dense, layer, trial, rngs))
    if kind in ("lstm", "gru"):
        return Recurrent(layer, trial, **common)
    if kind == "embedding":
        return Embedding(layer["vocabulary"], layer["features"], **dtypes)
    if kind == "tied_head":
        return Bias(layer["vocabulary"], trial.dtype)
    if kind == "class_token":
        return ClassToken(layer, trial.dtype)
    if kind == "position_embedding":
        return PositionEmbedding(layer, trial.dtype)
    if kind == "tanh" and trial.simulated_bits:
        return partial(rounding.tanh, trial.simulated_bits)
    if kind in SIMPLE:
        return SIMPLE[kind]
    raise NotImplementedError(f"JAX module has no layer {kind!r}")


def _mean_of_real(sequence: Any, masks: Masks) -> Any:
    """The mean of the members of a sequence that are not padding."""
    return sequence.mean(1, where=masks[False][:, 0, 0, :, None])


def _dense(
    attention: dict[str, Any], trial: Trial, rngs: nnx.Rngs, inputs: int, outputs: int
) -> Callable[[Any], Any]:
    """A product of an attention; that of windows always has a bias."""
    product = {"kind": "dense", "in_features": inputs, "out_features": outputs}
    return _lower({**product, "bias": attention.get("bias", True)}, trial, rngs)


def _channel_shuffle(groups: int, images: Any) -> Any:
    parts = images.reshape((*images.shape[:-1], groups, -1))
    return parts.swapaxes(-1, -2).reshape(images.shape)


def _local_response_norm(layer: dict[str, Any], images: Any) -> Any:
    """In float32 or float64: neither JAX nor Flax has one."""
    wide = images.astype(jnp.promote_types(images.dtype, jnp.float32))
    channels, half = wide.shape[-1], layer["size"] // 2
    squares = jnp.pad(wide * wide, ((0, 0),) * 3 + ((half, half),))
    total = sum(squares[..., first : first + channels] for first in range(layer["size"]))
    factors = (layer["k"] + layer["alpha"] / layer["size"] * total) ** -layer["beta"]
    return (wide * factors).astype(images.dtype)


def _upsampled(layer: dict[str, Any], images: Any) -> Any:
    batch, height, width, channels = images.shape
    rows, columns = layer["factor"]
    if layer["mode"] == "bilinear":
        shape = batch, rows * height, columns * width, channels
        return jax.image.resize(images, shape, "bilinear")
    return jnp.repeat(jnp.repeat(images, rows, 1), columns, 2)


def _convolution(trial: Trial) -> Callable[..., Any]:
    if trial.dtype == "float64":
        return matmul.convolve_by_rows
    return matmul.convolve if trial.variant == "matmul" else lax.conv_general_dilated


# The field with the number of outputs, by the kind of a product that may have a bias.
PRODUCTS = {
    "conv2d": "out_channels",
    "conv2d_transposed": "out_channels",
    "dense": "out_features",
}
JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "add": lambda results: sum(results[1:], results[0]),
    "multiply": lambda results: math.prod(results[1:], start=results[0]),
    "concat": lambda results: jnp.concatenate(results, -1),
}
SIMPLE: dict[str, Callable[[Any], Any]] = {
    "relu": nnx.relu,
    "tanh": nnx.tanh,
    "relu6": jax.nn.relu6,
    "sigmoid": nnx.sigmoid,
    "silu": nnx.silu,
    "hard_swish": jax.nn.hard_swish,
    "flatten": lambda images: images.reshape((images.shape[0], -1)),
    "global_avg_pool2d": lambda images: images.mean((1, 2)),
    "rows": lambda images: images[..., 0],
    "tokens": lambda images: images.reshape((images.shape[0], -1, images.shape[-1])),
    "first_token": lambda sequence: sequence[:, 0],
    "mean_token": lambda sequence: sequence.mean(1),
    "reverse": lambda sequence: sequence[:, ::-1],
    "patch_merging": _merged,
}
ATTENTION: dict[str, tuple[str, ...]] = {
    "in_weight": ("input", "kernel"),
    "in_bias": ("input", "bias"),
    "out_weight": ("output", "kernel"),
    "out_bias": ("output", "bias"),
}
# The path of a parameter or statistic inside its layer, by its canonical role, where it is not the
# role itself.
PATHS: dict[str, dict[str, tuple[str, ...]]] = {
    "conv2d": {"weight": ("kernel",)},
    "conv2d_transposed": {"weight": ("kernel",)},
    "dense": {"weight": ("kernel",)},
    "batch_norm": {"weight": ("scale",), "variance": ("var",)},
    "layer_norm": {"weight": ("scale",)},
    "group_norm": {"weight": ("scale",)},
    "rms_norm": {"weight": ("scale",)},
    "embedding": {"weight": ("embedding",)},
    "lstm": {
        "input_weight": ("layer", "cell", "dense_i", "kernel"),
        "hidden_weight": ("layer", "cell", "dense_h", "kernel"),
        "bias": ("layer", "cell", "dense_h", "bias"),
    },
    "gru": {
        "input_weight": ("layer", "cell", "dense_i", "kernel"),
        "hidden_weight": ("layer", "cell", "dense_h", "kernel"),
        "bias": ("layer", "cell", "dense_i", "bias"),
        "hidden_bias": ("layer", "cell", "dense_h", "bias"),
    },
    "self_attention": ATTENTION,
    "window_attention": ATTENTION,
}


def paths(trial: Trial) -> dict[str, tuple[str, ...]]:
    """The path of each parameter and statistic in the model, by its canonical name."""
    layers = {layer["name"]: layer for layer in trial.leaves()}
    found = {}
    for each in (*trial.parameters, *trial.statistics):
        layer, role = each["name"].split(".")
        path = PATHS.get(layers[layer]["kind"], {}).get(role, (role,))
        if role.endswith("weight") and is_biased(layers[layer], role, trial):
            path = (*path[:-1], "product", path[-1])
        found[each["name"]] = (PREFIX + layer, *path)
    return found
