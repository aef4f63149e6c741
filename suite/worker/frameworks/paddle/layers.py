"""A trial's layers as PaddlePaddle layers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional

from ...attention import masks_needed
from ...layouts import kept
from ...protocol import Trial
from .attention import Masks, SelfAttention, WindowAttention, key_masks


class BatchNorm(nn.BatchNorm2D):
    """Batch norm of images or vectors; PaddlePaddle's momentum is the share of the old value.

    The running variance is biased, as ours.
    """

    def __init__(self, layer: dict[str, Any]) -> None:
        momentum = 1 - layer["momentum"]
        super().__init__(layer["channels"], momentum=momentum, epsilon=layer["epsilon"])

    def _check_input_dim(self, values: paddle.Tensor) -> None:
        """PaddlePaddle's accepts only images."""

    def moments(self) -> dict[str, paddle.Tensor]:
        """The running mean and the running biased variance."""
        return {"mean": self._mean, "variance": self._variance}


class Recurrent(nn.Layer):
    """An LSTM or a GRU; with `sequence`, the hidden states of all members."""

    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self._whole = layer["sequence"]
        make = {"lstm": nn.LSTM, "gru": nn.GRU}[layer["kind"]]
        self.cell = make(layer["in_features"], layer["hidden"])
        if layer["kind"] == "lstm":
            # PaddlePaddle's LSTM has a second bias, of the recurrent product. It stays zero,
            # because the optimizer does not get it. Its gradient cannot be switched off, nor is it
            # ever cleared; the hook keeps it from accumulating.
            self.cell.bias_hh_l0.set_value(paddle.zeros_like(self.cell.bias_hh_l0))
            self.cell.bias_hh_l0.register_hook(paddle.zeros_like)

    def forward(self, sequence: paddle.Tensor) -> paddle.Tensor:
        states = self.cell(sequence)[0]
        return states if self._whole else states[:, -1]


class RmsNorm(nn.Layer):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self._epsilon = layer["epsilon"]
        self.weight = self.create_parameter([layer["features"]])

    def forward(self, sequence: paddle.Tensor) -> paddle.Tensor:
        # With square() the inference engine with oneDNN gives wrong results behind a convolution
        # whose result is transposed (3.3.1).
        square = (sequence * sequence).mean(-1, keepdim=True)
        return sequence * paddle.rsqrt(square + self._epsilon) * self.weight


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of images."""

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        return super().forward(images.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])


class Scale(nn.Layer):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = self.create_parameter([layer["channels"]])

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        return images * self.weight.reshape([-1, 1, 1])


class ClassToken(nn.Layer):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = self.create_parameter([layer["features"]])

    def forward(self, sequence: paddle.Tensor) -> paddle.Tensor:
        token = self.weight.expand([sequence.shape[0], 1, -1])
        return paddle.concat([token, sequence], axis=1)


class PositionEmbedding(nn.Layer):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = self.create_parameter([layer["length"], layer["features"]])

    def forward(self, sequence: paddle.Tensor) -> paddle.Tensor:
        return sequence + self.weight


class TiedHead(nn.Layer):
    def __init__(self, layer: dict[str, Any], embedding: nn.Layer) -> None:
        super().__init__()
        self._of = [embedding]  # in a list, because its weight is not a parameter of this layer
        self.bias = self.create_parameter([layer["vocabulary"]]) if layer["bias"] else None

    def forward(self, sequence: paddle.Tensor) -> paddle.Tensor:
        product = paddle.matmul(sequence, self._of[0].weight, transpose_y=True)
        return product if self.bias is None else product + self.bias


class Branches(nn.Layer):
    """Several series on one input; their results are added, multiplied or concatenated."""

    def __init__(self, layer: dict[str, Any], series: list[nn.Layer]) -> None:
        super().__init__()
        self._kind, self._sequence = layer["kind"], layer.get("sequence", False)
        self.series = nn.LayerList(series)

    def forward(self, values: paddle.Tensor, masks: Masks | None = None) -> paddle.Tensor:
        results = [each(values, masks) for each in self.series]
        if self._kind == "concat":
            return paddle.concat(results, axis=-1 if self._sequence else 1)
        if self._kind == "multiply":
            return math.prod(results[1:], start=results[0])
        return sum(results[1:], results[0])


class Apply(nn.Layer):
    """A function of one tensor that has no layer of its own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, values: paddle.Tensor) -> paddle.Tensor:
        return self._function(values)


class MeanOfReal(nn.Layer):
    """The mean of the members of a sequence that are not padding."""

    def forward(self, sequence: paddle.Tensor, masks: Masks) -> paddle.Tensor:
        real = masks[False].squeeze(1).transpose([0, 2, 1]).astype(sequence.dtype)
        return (sequence * real).sum(1) / real.sum(1)


MASKED = (Branches, SelfAttention, MeanOfReal)


class Series(nn.Sequential):
    """Layers one after the other, with the masks of a batch for those that need them."""

    def forward(self, values: paddle.Tensor, masks: Masks | None = None) -> paddle.Tensor:
        for layer in self._sub_layers.values():
            values = layer(values, masks) if isinstance(layer, MASKED) else layer(values)
        return values


class Padded(nn.Layer):
    """A model of sequences with padding, which has the masks of each batch."""

    def __init__(self, model: nn.Layer, padding_id: int, causal: list[bool]) -> None:
        super().__init__()
        self.model = model
        self._padding_id, self._causal = padding_id, causal

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        return self.model(tokens, key_masks(tokens, self._padding_id, self._causal))


def build(trial: Trial, made: dict[str, nn.Layer]) -> nn.Layer:
    """The model; its layers are also added to `made` by name."""
    model, (padding_id, causal) = series(trial.layers, made), masks_needed(trial.leaves())
    return model if padding_id is None else Padded(model, padding_id, causal)


def series(layers: list[Any], made: dict[str, nn.Layer]) -> Series:
    """The layers one after the other; each is also added to `made` by its name."""
    lowered: list[nn.Layer] = []
    for layer in layers:
        if "branches" in layer:
            inner = [series(branch, made) for branch in layer["branches"]]
            lowered.append(Branches(layer, inner))
        elif layer["kind"] == "tied_head":
            made[layer["name"]] = TiedHead(layer, made[layer["embedding"]])
            lowered.append(made[layer["name"]])
        else:
            made[layer["name"]] = _lower(layer)
            lowered.append(made[layer["name"]])
    return Series(*lowered)


def _padding(layer: dict[str, Any]) -> list[int]:
    """The padding of height and width, or where it is uneven of all four sides."""
    (top, left), (below, right) = layer["padding"], layer["extra_padding"]
    return [top, top + below, left, left + right] if below or right else [top, left]


def _lower(layer: dict[str, Any]) -> nn.Layer:
    kind = layer["kind"]
    if kind == "conv2d":
        return nn.Conv2D(
            layer["in_channels"],
            layer["out_channels"],
            layer["kernel"],
            stride=layer["stride"],
            padding=_padding(layer),
            groups=layer["groups"],
            dilation=layer["dilation"],
            bias_attr=None if layer["bias"] else False,
        )
    if kind == "conv2d_transposed":
        return nn.Conv2DTranspose(
            layer["in_channels"],
            layer["out_channels"],
            layer["kernel"],
            stride=layer["stride"],
            padding=layer["padding"],
            output_padding=layer["extra"],
            bias_attr=None if layer["bias"] else False,
        )
    if kind == "upsample":
        return nn.Upsample(scale_factor=[*layer["factor"]], mode=layer["mode"])
    if kind == "group_norm":
        return nn.GroupNorm(layer["groups"], layer["channels"], epsilon=layer["epsilon"])
    if kind == "local_response_norm":
        return nn.LocalResponseNorm(layer["size"], layer["alpha"], layer["beta"], layer["k"])
    if kind == "rms_norm":
        return RmsNorm(layer)
    if kind == "max_pool2d":
        sizes = {"stride": layer["stride"], "padding": _padding(layer)}
        return nn.MaxPool2D(layer["kernel"], **sizes, ceil_mode=layer["ceil"])
    if kind == "avg_pool2d":
        sizes = {"stride": layer["stride"], "padding": _padding(layer)}
        return nn.AvgPool2D(layer["kernel"], **sizes, exclusive=not layer["count_padding"])
    if kind == "dense":
        bias = None if layer["bias"] else False
        return nn.Linear(layer["in_features"], layer["out_features"], bias_attr=bias)
    if kind == "batch_norm":
        return BatchNorm(layer)
    if kind == "layer_norm":
        norm = ChannelNorm if layer["images"] else nn.LayerNorm
        return norm(layer["features"], epsilon=layer["epsilon"])
    if kind == "channel_slice":
        return Apply(lambda images: images[:, layer["start"] : layer["stop"]])
    if kind == "channel_shuffle":
        return nn.ChannelShuffle(layer["groups"])
    if kind == "zero_padding2d":
        return nn.ZeroPad2D([layer[side] for side in ("left", "right", "top", "bottom")])
    if kind == "cropping2d":
        rows, columns = kept(layer)
        return Apply(lambda images: images[:, :, rows, columns])
    if kind == "scale":
        return Scale(layer)
    if kind == "gelu":
        return nn.GELU(layer["approximate"])
    if kind == "embedding":
        return nn.Embedding(layer["vocabulary"], layer["features"])
    if kind == "mean_token" and layer["padding_id"] is not None:
        return MeanOfReal()
    if kind == "dropout":
        # The axes along which each value has a mask of its own: all, or that of the samples.
        return nn.Dropout(layer["rate"], axis=0 if layer["whole"] else None)
    if kind == "leaky_relu":
        slope = layer["slope"]
        # The gradient of PaddlePaddle's own is 1 at 0.
        return Apply(lambda values: paddle.where(values > 0, values, slope * values))
    if kind == "hard_sigmoid":
        return Apply(partial(_hard_sigmoid, 6 * layer["slope"]))
    if kind in SIMPLE:
        return SIMPLE[kind]()
    if kind in SEQUENCES:
        return SEQUENCES[kind](layer)
    raise NotImplementedError(f"PaddlePaddle module has no layer {kind!r}")


def _hard_sigmoid(scale: float, values: paddle.Tensor) -> paddle.Tensor:
    """PaddlePaddle's own has the slope 0.1666667 in place of 1 / 6."""
    scaled = values if scale == 1 else scale * values
    return functional.relu6(scaled + 3) / 6


def _merged(images: paddle.Tensor) -> paddle.Tensor:
    """The four pixels of each square, one after the other in the channels."""
    parts = [images[:, :, y::2, x::2] for x in (0, 1) for y in (0, 1)]
    return paddle.concat(parts, axis=1)


SIMPLE = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "relu6": nn.ReLU6,
    "sigmoid": nn.Sigmoid,
    "silu": nn.Silu,
    "hard_swish": nn.Hardswish,
    "flatten": nn.Flatten,
    "global_avg_pool2d": lambda: Apply(lambda images: images.mean([2, 3])),
    "rows": lambda: Apply(lambda images: images.squeeze(1)),
    "tokens": lambda: Apply(lambda images: images.flatten(2).transpose([0, 2, 1])),
    "first_token": lambda: Apply(lambda sequence: sequence[:, 0]),
    "patch_merging": lambda: Apply(_merged),
    "mean_token": lambda: Apply(lambda sequence: sequence.mean(1)),
    "reverse": lambda: Apply(lambda sequence: sequence.flip([1])),
}
SEQUENCES = {
    "class_token": ClassToken,
    "position_embedding": PositionEmbedding,
    "self_attention": SelfAttention,
    "window_attention": WindowAttention,
    "lstm": Recurrent,
    "gru": Recurrent,
}
# The attribute of a parameter, by its canonical role, where it is not the role itself.
ROLES = {
    "input_weight": "cell.weight_ih_l0",
    "hidden_weight": "cell.weight_hh_l0",
    "hidden_bias": "cell.bias_hh_l0",
    "in_weight": "input.weight",
    "in_bias": "input.bias",
    "out_weight": "output.weight",
    "out_bias": "output.bias",
}


def parameter_of(made: dict[str, nn.Layer], name: str) -> tuple[paddle.Tensor, bool]:
    """The parameter with the canonical name `name`, and whether it is transposed: (in, out)."""
    layer, role = name.split(".")
    owner = made[layer]
    path = ROLES.get(role, role)
    if isinstance(owner, Recurrent) and role == "bias":
        path = "cell.bias_ih_l0"
    *outer, attribute = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    return getattr(owner, attribute), isinstance(owner, nn.Linear) and attribute == "weight"
