"""A trial's layers as Gluon blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from mxnet import gluon
from mxnet.gluon import nn

from ...attention import masks_needed
from ...layouts import kept, shares, side_paddings
from ...protocol import Trial
from .attention import SelfAttention, WindowAttention, kept_keys


class Branches(gluon.HybridBlock):
    """Several series on one input; their results are added, multiplied or concatenated."""

    def __init__(self, layer: dict[str, Any], series: list[gluon.HybridBlock]) -> None:
        super().__init__(prefix="")
        self._kind, self._axis = layer["kind"], 2 if layer.get("sequence") else 1
        for each in series:
            self.register_child(each)

    def hybrid_forward(self, F: Any, values: Any, *real: Any) -> Any:  # noqa: N803, as in Gluon
        results = [series(values, *real) for series in self._children.values()]
        if self._kind == "multiply":
            return reduce(F.broadcast_mul, results)
        # oneDNN adds within a convolution only the operands of a plus, not those of `add_n`.
        concat = self._kind == "concat"
        return F.concat(*results, dim=self._axis) if concat else sum(results[1:], results[0])


class GroupNorm(gluon.HybridBlock):
    """MXNet's group norm has a scale and a bias for each group, not for each channel."""

    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self._sizes = {"num_groups": layer["groups"], "eps": layer["epsilon"]}
        self.ones = self.params.get_constant("ones", np.ones(layer["groups"]))
        self.zeros = self.params.get_constant("zeros", np.zeros(layer["groups"]))
        self.weight = self.params.get("weight", shape=(layer["channels"],))
        self.bias = self.params.get("bias", shape=(layer["channels"],))

    def hybrid_forward(self, F: Any, images: Any, **own: Any) -> Any:  # noqa: N803
        normed = F.GroupNorm(images, own["ones"], own["zeros"], **self._sizes)
        weight, bias = (own[role].reshape((1, -1, 1, 1)) for role in ("weight", "bias"))
        return F.broadcast_add(F.broadcast_mul(normed, weight), bias)


class RmsNorm(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self._epsilon = layer["epsilon"]
        self.weight = self.params.get("weight", shape=(layer["features"],))

    def hybrid_forward(self, F: Any, sequence: Any, weight: Any) -> Any:  # noqa: N803
        square = F.mean(F.square(sequence), axis=-1, keepdims=True)
        normed = F.broadcast_mul(sequence, F.rsqrt(square + self._epsilon))
        return F.broadcast_mul(normed, weight.reshape((1, 1, -1)))


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of images."""

    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        numbers = {"epsilon": layer["epsilon"], "in_channels": layer["features"]}
        super().__init__(axis=1, **numbers, prefix=prefix)


class Scale(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.weight = self.params.get("weight", shape=(layer["channels"],))

    def hybrid_forward(self, F: Any, images: Any, weight: Any) -> Any:  # noqa: N803
        return F.broadcast_mul(images, weight.reshape((1, -1, 1, 1)))


class Factors(gluon.HybridBlock):
    """Constant factors (height, width) of an image."""

    def __init__(self, factors: np.ndarray, prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.factors = self.params.get_constant("factors", factors[None, None])

    def hybrid_forward(self, F: Any, images: Any, factors: Any) -> Any:  # noqa: N803
        return F.broadcast_mul(images, factors)


class ClassToken(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.weight = self.params.get("weight", shape=(layer["features"],))

    def hybrid_forward(self, F: Any, sequence: Any, weight: Any) -> Any:  # noqa: N803
        first = F.slice_axis(sequence, axis=1, begin=0, end=1)
        return F.concat(F.broadcast_like(weight.reshape((1, 1, -1)), first), sequence, dim=1)


class PositionEmbedding(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.weight = self.params.get("weight", shape=(layer["length"], layer["features"]))

    def hybrid_forward(self, F: Any, sequence: Any, weight: Any) -> Any:  # noqa: N803
        return F.broadcast_add(sequence, weight.expand_dims(0))


class TiedHead(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], embedding: nn.Embedding, prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.weight = embedding.weight
        self._vocabulary = layer["vocabulary"]
        if layer["bias"]:
            self.bias = self.params.get("bias", shape=(self._vocabulary,))

    def hybrid_forward(self, F: Any, sequence: Any, weight: Any, bias: Any = None) -> Any:  # noqa: N803
        sizes = {"num_hidden": self._vocabulary, "flatten": False}
        given = [weight] if bias is None else [weight, bias]
        return F.FullyConnected(sequence, *given, **sizes, no_bias=bias is None)


class Recurrent(gluon.HybridBlock):
    """An LSTM or a GRU; with `sequence`, the hidden states of all members."""

    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self._whole = layer["sequence"]
        make = {"lstm": gluon.rnn.LSTM, "gru": gluon.rnn.GRU}[layer["kind"]]
        sizes = {"layout": "NTC", "input_size": layer["in_features"]}
        self.cell = make(layer["hidden"], **sizes, prefix=prefix)
        if layer["kind"] == "lstm":
            # MXNet's LSTM has a second bias, of the recurrent product. It stays zero.
            self.cell.l0_h2h_bias.grad_req = "null"

    def hybrid_forward(self, F: Any, sequence: Any) -> Any:  # noqa: N803
        states = self.cell(sequence)
        return states if self._whole else F.slice_axis(states, axis=1, begin=-1, end=None).flatten()


class MeanOfReal(gluon.HybridBlock):
    """The mean of the members of a sequence that are not padding."""

    def hybrid_forward(self, F: Any, sequence: Any, real: Any) -> Any:  # noqa: N803
        counted = kept_keys(F, real, causal=False).transpose((0, 2, 1))
        total = F.sum(F.broadcast_mul(sequence, counted), axis=1)
        return F.broadcast_div(total, F.sum(counted, axis=1))


class Series(nn.HybridSequential):
    """Blocks one after the other.

    With padding, `real` (batch, length) is 1 for the other members; some blocks take it too.
    """

    def hybrid_forward(self, F: Any, values: Any, *real: Any) -> Any:  # noqa: N803
        for block in self._children.values():
            values = block(values, *real) if isinstance(block, MASKED) else block(values)
        return values


MASKED = (Branches, SelfAttention, MeanOfReal)


class Padded(gluon.HybridBlock):
    """A model of sequences with padding."""

    def __init__(self, model: gluon.HybridBlock, padding_id: int) -> None:
        super().__init__(prefix="")
        self.model, self._padding_id = model, padding_id

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:  # noqa: N803
        return self.model(tokens, F.cast(tokens != self._padding_id, "float32"))


def model_of(trial: Trial) -> gluon.HybridBlock:
    """The model as one block."""
    model, (padding_id, _) = series(trial.layers), masks_needed(trial.leaves())
    return model if padding_id is None else Padded(model, padding_id)


def series(
    layers: list[dict[str, Any]], embeddings: dict[str, nn.Embedding] | None = None
) -> gluon.HybridBlock:
    """The layers as one block; `embeddings` are those before, by name."""
    series = Series(prefix="")
    embeddings = {} if embeddings is None else embeddings
    concatenated = False
    for layer in layers:
        block = _lower(layer, embeddings)
        if concatenated and layer["kind"] == "conv2d_transposed":
            series.add(nn.HybridLambda(_copy))
        concatenated = _is_concatenated(layer, before=concatenated)
        if layer["kind"] == "embedding":
            embeddings[layer["name"]] = block
        if any(layer.get("extra_padding", ())):
            series.add(_extra_padding(layer))
        series.add(block)
    return series


def _is_concatenated(layer: dict[str, Any], *, before: bool) -> bool:
    """Whether the result of a layer may have the memory layout of a concatenation.

    MXNet 1.9.1 ends with SIGFPE in the backward of a transposed convolution of such a tensor. It
    comes from oneDNN: with MXNET_MKLDNN_ENABLED=0 there is no error.
    """
    if "branches" in layer:
        inner = (each for branch in layer["branches"] for each in branch)
        own = layer["kind"] == "concat" or before
        return own or any(_is_concatenated(each, before=False) for each in inner)
    return before and layer["kind"] not in ("conv2d", "conv2d_transposed", "group_norm", "upsample")


def _copy(ops: Any, values: Any) -> Any:
    """The values in MXNet's own memory layout."""
    return ops.slice_axis(values, axis=0, begin=0, end=None)


def _extra_padding(layer: dict[str, Any]) -> gluon.HybridBlock:
    """What pads the images below and to the right, before a layer that pads all sides evenly."""
    below, right = layer["extra_padding"]
    value = float(np.finfo(np.float32).min) if layer["kind"] == "max_pool2d" else 0.0
    widths = (0, 0, 0, 0, 0, below, 0, right)
    return nn.HybridLambda(
        lambda ops, x: ops.pad(x, mode="constant", pad_width=widths, constant_value=value)
    )


def _average_pool(layer: dict[str, Any], prefix: str) -> gluon.HybridBlock:
    """MXNet's own, or where its padding has a layer before, with the divisors made right."""
    share = shares(layer) if any(layer["extra_padding"]) else None
    counts = layer["count_padding"] or share is not None
    sizes = {"strides": tuple(layer["stride"]), "padding": tuple(layer["padding"])}
    pool = nn.AvgPool2D(tuple(layer["kernel"]), **sizes, count_include_pad=counts, prefix=prefix)
    if share is None:
        return pool
    both = nn.HybridSequential(prefix="")
    both.add(pool, Factors(1 / share, prefix))
    return both


def _lower(layer: dict[str, Any], embeddings: dict[str, nn.Embedding]) -> gluon.HybridBlock:
    kind, prefix = layer["kind"], f"{layer['name']}_"
    if "branches" in layer:
        return Branches(layer, [series(branch, embeddings) for branch in layer["branches"]])
    if kind == "tied_head":
        return TiedHead(layer, embeddings[layer["embedding"]], prefix)
    if kind == "conv2d":
        return nn.Conv2D(
            layer["out_channels"],
            tuple(layer["kernel"]),
            strides=tuple(layer["stride"]),
            padding=tuple(layer["padding"]),
            use_bias=layer["bias"],
            groups=layer["groups"],
            dilation=tuple(layer["dilation"]),
            in_channels=layer["in_channels"],
            prefix=prefix,
        )
    if kind == "conv2d_transposed":
        return nn.Conv2DTranspose(
            layer["out_channels"],
            tuple(layer["kernel"]),
            strides=tuple(layer["stride"]),
            padding=tuple(layer["padding"]),
            output_padding=tuple(layer["extra"]),
            use_bias=layer["bias"],
            in_channels=layer["in_channels"],
            prefix=prefix,
        )
    if kind == "upsample":
        return nn.HybridLambda(_upsampling(layer))
    if kind == "group_norm":
        return GroupNorm(layer, prefix)
    if kind == "local_response_norm":
        return nn.HybridLambda(_local_response_norm(layer))
    if kind == "rms_norm":
        return RmsNorm(layer, prefix)
    if kind == "max_pool2d":
        sizes = {"strides": tuple(layer["stride"]), "padding": tuple(layer["padding"])}
        return nn.MaxPool2D(tuple(layer["kernel"]), **sizes, ceil_mode=layer["ceil"], prefix=prefix)
    if kind == "avg_pool2d":
        return _average_pool(layer, prefix)
    if kind == "dense":
        sizes = {"in_units": layer["in_features"], "use_bias": layer["bias"]}
        return nn.Dense(layer["out_features"], **sizes, flatten=False, prefix=prefix)
    if kind == "batch_norm":
        numbers = {"momentum": 1 - layer["momentum"], "epsilon": layer["epsilon"]}
        return nn.BatchNorm(**numbers, in_channels=layer["channels"], prefix=prefix)
    if kind == "gelu":
        return nn.HybridLambda(_gelu_by_tanh) if layer["approximate"] else nn.GELU()
    if kind == "channel_slice":
        part = {"axis": 1, "begin": layer["start"], "end": layer["stop"]}
        return nn.HybridLambda(lambda ops, x: ops.slice_axis(x, **part))
    if kind == "channel_shuffle":
        groups = layer["groups"]
        return nn.HybridLambda(
            lambda ops, x: x.reshape((0, -4, groups, -1, -2)).swapaxes(1, 2).reshape((0, -3, -2))
        )
    if kind == "zero_padding2d":
        (top, bottom), (left, right) = side_paddings(layer)
        widths = (0, 0, 0, 0, top, bottom, left, right)
        return nn.HybridLambda(lambda ops, x: ops.pad(x, mode="constant", pad_width=widths))
    if kind == "cropping2d":
        rows, columns = kept(layer)
        begin, end = (None, None, rows.start, columns.start), (None, None, rows.stop, columns.stop)
        return nn.HybridLambda(lambda ops, x: ops.slice(x, begin=begin, end=end))
    if kind == "scale":
        return Scale(layer, prefix)
    if kind == "layer_norm" and layer["images"]:
        return ChannelNorm(layer, prefix)
    if kind == "layer_norm":
        numbers = {"epsilon": layer["epsilon"], "in_channels": layer["features"]}
        return nn.LayerNorm(**numbers, prefix=prefix)
    if kind == "embedding":
        return nn.Embedding(layer["vocabulary"], layer["features"], prefix=prefix)
    if kind == "mean_token" and layer["padding_id"] is not None:
        return MeanOfReal(prefix=prefix)
    if kind == "dropout":
        axes = range(1, len(layer["input_shape"]) + 1) if layer["whole"] else ()
        return nn.Dropout(layer["rate"], axes=tuple(axes), prefix=prefix)
    if kind in ("relu", "tanh", "sigmoid"):
        return nn.Activation(kind, prefix=prefix)
    if kind == "leaky_relu":
        return nn.LeakyReLU(layer["slope"], prefix=prefix)
    if kind == "hard_sigmoid":
        return nn.HybridLambda(_hard_sigmoid(6 * layer["slope"]), prefix=prefix)
    if kind in SIMPLE:
        return SIMPLE[kind]()
    if kind in SEQUENCES:
        return SEQUENCES[kind](layer, prefix)
    raise NotImplementedError(f"MXNet module has no layer {kind!r}")


def _upsampling(layer: dict[str, Any]) -> Callable[[Any, Any], Any]:
    (_, height, width), (rows, columns) = layer["input_shape"], layer["factor"]
    if layer["mode"] == "bilinear":
        sizes = {"height": rows * height, "width": columns * width, "align_corners": False}
        return lambda ops, x: ops.contrib.BilinearResize2D(x, **sizes)
    return lambda ops, x: ops.repeat(ops.repeat(x, repeats=rows, axis=2), repeats=columns, axis=3)


def _local_response_norm(layer: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """The mean over channels is a pool: on a CPU, LRN has wrong gradients in MXNet 1.9.1.

    They are wrong where a network has two, unless MXNET_MKLDNN_ENABLED is 0. A pool is as fast.
    """
    size, alpha, beta, k = (layer[name] for name in ("size", "alpha", "beta", "k"))
    window = {"kernel": (size, 1, 1), "stride": (1, 1, 1), "pad": (size // 2, 0, 0)}

    def run(ops: Any, images: Any) -> Any:
        squares = ops.expand_dims(ops.square(images), axis=1)
        means = ops.Pooling(squares, pool_type="avg", count_include_pad=True, **window)
        return images * (k + alpha * ops.squeeze(means, axis=1)) ** -beta

    return run


def _hard_sigmoid(scale: float) -> Callable[[Any, Any], Any]:
    def function(ops: Any, values: Any) -> Any:
        scaled = values if scale == 1 else scale * values
        return ops.clip(scaled + 3, 0, 6) / 6

    return function


def _gelu_by_tanh(ops: Any, values: Any) -> Any:
    inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values * values * values)
    return 0.5 * values * (1 + ops.tanh(inner))


def _merged(ops: Any, images: Any) -> Any:
    """The four pixels of each square, one after the other in the channels."""
    parts = [
        ops.slice(images, begin=(None, None, y, x), end=(None,) * 4, step=(1, 1, 2, 2))
        for x in (0, 1)
        for y in (0, 1)
    ]
    return ops.concat(*parts, dim=1)


def _global_pool() -> gluon.HybridBlock:
    pool = nn.HybridSequential(prefix="")
    pool.add(nn.GlobalAvgPool2D(), nn.Flatten())
    return pool


SIMPLE = {
    # The gradient of clip at 0 is 1; that of relu is 0, as of relu6 in the other frameworks.
    "relu6": lambda: nn.HybridLambda(lambda ops, x: ops.clip(ops.relu(x), -1, 6)),
    "silu": nn.Swish,
    "hard_swish": lambda: nn.HybridLambda(lambda ops, x: x * ops.clip(x + 3, 0, 6) / 6),
    "flatten": nn.Flatten,
    "global_avg_pool2d": _global_pool,
    "rows": lambda: nn.HybridLambda(lambda ops, images: ops.squeeze(images, axis=1)),
    "tokens": lambda: nn.HybridLambda(lambda ops, x: x.reshape((0, 0, -1)).transpose((0, 2, 1))),
    "first_token": lambda: nn.HybridLambda(
        lambda ops, x: ops.slice_axis(x, axis=1, begin=0, end=1).flatten()
    ),
    "patch_merging": lambda: nn.HybridLambda(_merged),
    "mean_token": lambda: nn.HybridLambda(lambda ops, x: ops.mean(x, axis=1)),
    "reverse": lambda: nn.HybridLambda(lambda ops, x: ops.reverse(x, axis=1)),
}
SEQUENCES = {
    "class_token": ClassToken,
    "position_embedding": PositionEmbedding,
    "self_attention": SelfAttention,
    "window_attention": WindowAttention,
    "lstm": Recurrent,
    "gru": Recurrent,
}
# Gluon's name of a parameter, by its canonical role, where it is not the role itself.
NAMES = {
    "batch_norm": {
        "weight": "gamma",
        "bias": "beta",
        "mean": "running_mean",
        "variance": "running_var",
    },
    "layer_norm": {"weight": "gamma", "bias": "beta"},
    "lstm": {
        "input_weight": "l0_i2h_weight",
        "hidden_weight": "l0_h2h_weight",
        "bias": "l0_i2h_bias",
    },
    "gru": {
        "input_weight": "l0_i2h_weight",
        "hidden_weight": "l0_h2h_weight",
        "bias": "l0_i2h_bias",
        "hidden_bias": "l0_h2h_bias",
    },
}


def gluon_name(name: str, kinds: dict[str, str]) -> str:
    """Gluon's name for a canonical name: conv1.weight -> conv1_weight."""
    layer, role = name.split(".")
    return f"{layer}_{NAMES.get(kinds[layer], {}).get(role, role)}"
