"""A trial's layers as PyTorch modules."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ...attention import masks_needed
from ...layouts import kept, shares
from ...protocol import Trial
from .attention import Masks, SelfAttention, WindowAttention, key_masks
from .distributed import mean_over_ranks

# Of padding before a max pool. It is lower than any value of a model, and finite, because the
# simulated rounding of an infinity is no number.
LOWEST = -1e30


class BatchNorm(nn.BatchNorm2d):
    """Batch norm of images or vectors; its running variance is the mean of biased variances.

    PyTorch's running variance is the mean of unbiased variances, which are larger by the factor
    n / (n - 1). Here it starts at that factor instead of 1, so it is always larger by that factor,
    and it is divided by the factor where it is used.

    A batch may have several slices, each with its own mean and variance, as on several ranks. The
    running statistics are those of the first. With 0 slices, the statistics are those of the whole
    batch of several ranks.
    """

    def __init__(self, layer: dict[str, Any], slice_size: int) -> None:
        super().__init__(layer["channels"], eps=layer["epsilon"], momentum=layer["momentum"])
        self.slices = 1
        self._images = layer["images"]
        values = slice_size * math.prod(layer["input_shape"][1:])
        self._excess = values / max(1, values - 1)  # of one value, there is no unbiased variance
        self.running_var.fill_(self._excess)

    def _check_input_dim(self, values: torch.Tensor) -> None:
        """PyTorch's accepts only images."""

    def biased_variance(self) -> torch.Tensor:
        """The running biased variance."""
        return self.running_var / self._excess

    def plain(self) -> nn.Module:
        """PyTorch's own batch norm in inference mode, with this one's running statistics."""
        own = nn.BatchNorm2d if self._images else nn.BatchNorm1d
        norm = own(self.num_features, eps=self.eps).eval()
        norm.weight, norm.bias, norm.running_mean = self.weight, self.bias, self.running_mean
        norm.running_var = self.biased_variance()
        return norm

    def restore(self, mean: torch.Tensor, biased_variance: torch.Tensor) -> None:
        """Set the running statistics."""
        self.running_mean.copy_(mean)
        self.running_var.copy_(biased_variance).mul_(self._excess)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.training and self.slices == 1:
            return super().forward(images)
        if self.training and self.slices == 0:
            return self._of_all_ranks(images)
        if self.training:
            first, *others = images.chunk(self.slices)
            return torch.cat([super().forward(first), *map(self._of_slice, others)])
        moments = self.running_mean, self.biased_variance()
        return functional.batch_norm(images, *moments, self.weight, self.bias, eps=self.eps)

    def _of_all_ranks(self, images: torch.Tensor) -> torch.Tensor:
        """As torch.nn.SyncBatchNorm, which needs a GPU."""
        wide = images.to(self.weight.dtype)
        axes = (0, *range(2, wide.ndim))
        moments = torch.stack([wide.mean(axes), wide.square().mean(axes)])
        mean, square = mean_over_ranks(moments)
        variance = (square - mean.square()).clamp_min(0)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * self._excess, self.momentum)
        factor = self.weight * torch.rsqrt(variance + self.eps)
        offset = self.bias - mean * factor
        shape = -1, *[1] * (wide.ndim - 2)
        normed = wide * factor.view(shape) + offset.view(shape)
        return normed.to(images.dtype)

    def _of_slice(self, images: torch.Tensor) -> torch.Tensor:
        """The result for a slice, without running statistics."""
        none = None, None
        return functional.batch_norm(images, *none, self.weight, self.bias, True, eps=self.eps)


class Recurrent(nn.Module):
    """An LSTM or a GRU; with `sequence`, the hidden states of all members."""

    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        make = {"lstm": nn.LSTM, "gru": nn.GRU}[layer["kind"]]
        self.cell = make(layer["in_features"], layer["hidden"], batch_first=True)
        self._whole = layer["sequence"]
        if layer["kind"] == "lstm":
            # PyTorch's LSTM has a second bias, of the recurrent product. It stays zero.
            nn.init.zeros_(self.cell.bias_hh_l0).requires_grad_(False)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        states = self.cell(sequence)[0]
        return states if self._whole else states[:, -1]


class ClassToken(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer["features"]))

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.weight.expand(len(sequence), 1, -1), sequence], dim=1)


class PositionEmbedding(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer["length"], layer["features"]))

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return sequence + self.weight


def hard_sigmoid(values: torch.Tensor, slope: float = 1 / 6) -> torch.Tensor:
    """PyTorch's own, of the slope 1 / 6; in float64 its backward has 1 / 6 in float32."""
    if slope != 1 / 6:
        values = values * (6 * slope)
    if values.dtype == torch.float64:
        return functional.relu6(values + 3) / 6
    return functional.hardsigmoid(values)


def hard_swish(values: torch.Tensor) -> torch.Tensor:
    """As `hard_sigmoid`."""
    if values.dtype == torch.float64:
        return values * hard_sigmoid(values)
    return functional.hardswish(values)


class LayerNorm(nn.LayerNorm):
    """PyTorch's own, in float32 where bfloat16 is passed, as autocast has it on a GPU.

    On a CPU, autocast leaves bfloat16 as it is, and the sums of the parameters' gradients are then
    rounded to it.
    """

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values.to(torch.promote_types(values.dtype, torch.float32)))


class ChannelNorm(LayerNorm):
    """Layer norm over the channels of images."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class LocalResponseNorm(nn.LocalResponseNorm):
    """PyTorch's own, with the squares of bfloat16 in float32."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        wide = images.to(torch.promote_types(images.dtype, torch.float32))
        return super().forward(wide).to(images.dtype)


class Scale(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images * self.weight[:, None, None]


class AveragePool(nn.Module):
    """The mean over the values of a window that are no padding, which has its own layer before."""

    def __init__(self, layer: dict[str, Any], shares: np.ndarray) -> None:
        super().__init__()
        self._pool = nn.AvgPool2d(layer["kernel"], layer["stride"], layer["padding"])
        factors = torch.from_numpy(1 / shares).to(torch.get_default_dtype())
        self.register_buffer("factors", factors, persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self._pool(images) * self.factors.to(images.dtype)


class WholeDropout(nn.Module):
    """Dropout of whole samples."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._kept = 1 - rate

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return values
        shape = len(values), *[1] * (values.ndim - 1)
        return values * (values.new_empty(shape).bernoulli_(self._kept) / self._kept)


class TiedHead(nn.Module):
    def __init__(self, layer: dict[str, Any], embedding: nn.Module) -> None:
        super().__init__()
        self._of = [embedding]  # in a list, because its weight is not a parameter of this module
        self.bias = nn.Parameter(torch.zeros(layer["vocabulary"])) if layer["bias"] else None

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return functional.linear(sequence, self._of[0].weight, self.bias)


class Branches(nn.Module):
    """Several series on one input; their results are added, multiplied or concatenated."""

    def __init__(self, layer: dict[str, Any], series: list[nn.Module]) -> None:
        super().__init__()
        self._kind, self._sequence = layer["kind"], layer.get("sequence", False)
        own = (bool(branch) and branch[-1]["kind"] in OWN_RESULT for branch in layer["branches"])
        # A sum is computed in place where that is possible, as is a ReLU.
        self._into = next((number for number, each in enumerate(own) if each), None)
        self.series = nn.ModuleList(series)

    def forward(self, values: torch.Tensor, masks: Masks | None = None) -> torch.Tensor:
        results = [each(values, masks) for each in self.series]
        if self._kind == "concat":
            return torch.cat(results, dim=-1 if self._sequence else 1)
        if self._kind == "multiply":
            return math.prod(results[1:], start=results[0])
        if self._into is None:
            return sum(results[1:], results[0])
        total = results.pop(self._into)
        for result in results:
            # Under autocast the types may differ; in place, the sum would have that of `total`.
            if result.dtype == total.dtype:
                total += result
            else:
                total = total + result
        return total


class Apply(nn.Module):
    """A function of one tensor that has no module of its own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self._function(values)


class MeanOfReal(nn.Module):
    """The mean of the members of a sequence that are not padding, added in float32."""

    def forward(self, sequence: torch.Tensor, masks: Masks) -> torch.Tensor:
        real = masks[False][:, 0, 0, :, None]
        wide = torch.promote_types(sequence.dtype, torch.float32)
        total = (sequence * real).sum(1, dtype=wide)
        return (total / real.sum(1)).to(sequence.dtype)


class Series(nn.Sequential):
    """Layers one after the other, with the masks of a batch for those that need them."""

    def forward(self, values: torch.Tensor, masks: Masks | None = None) -> torch.Tensor:
        for layer in self:
            values = layer(values, masks) if isinstance(layer, MASKED) else layer(values)
        return values


MASKED = (Branches, SelfAttention, MeanOfReal)


class Padded(nn.Module):
    """A model of sequences with padding, which has the masks of each batch."""

    def __init__(self, model: nn.Module, padding_id: int, causal: list[bool]) -> None:
        super().__init__()
        self.model = model
        self._padding_id, self._causal = padding_id, causal

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.model(tokens, key_masks(tokens, self._padding_id, self._causal))
        return result


def build(trial: Trial, slice_size: int, modules: dict[str, nn.Module]) -> nn.Module:
    """The model; its layers are also added to `modules` by name."""
    model = series(trial.layers, slice_size, modules)
    padding_id, causal = masks_needed(trial.leaves())
    return model if padding_id is None else Padded(model, padding_id, causal)


def series(layers: list[Any], slice_size: int, modules: dict[str, nn.Module]) -> Series:
    """The layers one after the other; each is also added to `modules` by its name."""
    made = Series()
    before = None  # the kind of the layer before
    for layer in layers:
        if "branches" in layer:
            inner = [series(branch, slice_size, modules) for branch in layer["branches"]]
            module: nn.Module = Branches(layer, inner)
        elif layer["kind"] == "tied_head":
            module = modules[layer["name"]] = TiedHead(layer, modules[layer["embedding"]])
        elif layer["kind"] == "relu":
            # In place, it writes to memory that is already in the CPU's cache.
            module = modules[layer["name"]] = nn.ReLU(inplace=before in OWN_RESULT)
        else:
            module = modules[layer["name"]] = _lower(layer, slice_size)
        if any(layer.get("extra_padding", ())):
            made.append(_extra_padding(layer))
        made.append(module)  # by number: a layer's name may be that of a method of modules
        before = layer["kind"]
    return made


def _extra_padding(layer: dict[str, Any]) -> nn.Module:
    """What pads the images below and to the right, before a layer that pads all sides evenly."""
    below, right = layer["extra_padding"]
    value = LOWEST if layer["kind"] == "max_pool2d" else 0.0
    return nn.ConstantPad2d((0, right, 0, below), value)


def _lower(layer: dict[str, Any], slice_size: int) -> nn.Module:
    kind = layer["kind"]
    if kind == "conv2d":
        return nn.Conv2d(
            layer["in_channels"],
            layer["out_channels"],
            layer["kernel"],
            stride=layer["stride"],
            padding=layer["padding"],
            bias=layer["bias"],
            groups=layer["groups"],
            dilation=layer["dilation"],
        )
    if kind == "max_pool2d":
        sizes = {"stride": layer["stride"], "padding": layer["padding"]}
        return nn.MaxPool2d(layer["kernel"], **sizes, ceil_mode=layer["ceil"])
    if kind == "avg_pool2d":
        if _is_whole(layer):
            return nn.AdaptiveAvgPool2d(1)  # a tenth to a third faster than a window of that size
        share = shares(layer) if any(layer["extra_padding"]) else None
        if share is not None:
            return AveragePool(layer, share)
        sizes = {"stride": layer["stride"], "padding": layer["padding"]}
        return nn.AvgPool2d(layer["kernel"], **sizes, count_include_pad=layer["count_padding"])
    if kind == "dense":
        return nn.Linear(layer["in_features"], layer["out_features"], bias=layer["bias"])
    if kind == "batch_norm":
        return BatchNorm(layer, slice_size)
    if kind == "layer_norm":
        norm = ChannelNorm if layer["images"] else LayerNorm
        return norm(layer["features"], eps=layer["epsilon"])
    if kind == "group_norm":
        return nn.GroupNorm(layer["groups"], layer["channels"], eps=layer["epsilon"])
    if kind == "local_response_norm":
        return LocalResponseNorm(layer["size"], layer["alpha"], layer["beta"], layer["k"])
    if kind == "rms_norm":
        return nn.RMSNorm(layer["features"], eps=layer["epsilon"])
    if kind == "conv2d_transposed":
        return nn.ConvTranspose2d(
            layer["in_channels"],
            layer["out_channels"],
            layer["kernel"],
            stride=layer["stride"],
            padding=layer["padding"],
            output_padding=layer["extra"],
            bias=layer["bias"],
        )
    if kind == "upsample":
        corners = False if layer["mode"] == "bilinear" else None
        return nn.Upsample(
            scale_factor=tuple(layer["factor"]), mode=layer["mode"], align_corners=corners
        )
    if kind == "channel_slice":
        return Apply(lambda images: images[:, layer["start"] : layer["stop"]])
    if kind == "channel_shuffle":
        groups = layer["groups"]
        return Apply(lambda x: x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2))
    if kind == "zero_padding2d":
        return nn.ZeroPad2d([layer[side] for side in ("left", "right", "top", "bottom")])
    if kind == "cropping2d":
        rows, columns = kept(layer)
        return Apply(lambda images: images[:, :, rows, columns])
    if kind == "scale":
        return Scale(layer["channels"])
    if kind == "gelu":
        return nn.GELU("tanh" if layer["approximate"] else "none")
    if kind == "embedding":
        return nn.Embedding(layer["vocabulary"], layer["features"])
    if kind == "mean_token" and layer["padding_id"] is not None:
        return MeanOfReal()
    if kind == "dropout":
        return WholeDropout(layer["rate"]) if layer["whole"] else nn.Dropout(layer["rate"])
    if kind == "leaky_relu":
        return nn.LeakyReLU(layer["slope"])
    if kind == "hard_sigmoid":
        return Apply(partial(hard_sigmoid, slope=layer["slope"]))
    if kind in SIMPLE:
        return SIMPLE[kind]()
    if kind in SEQUENCES:
        return SEQUENCES[kind](layer)
    raise NotImplementedError(f"PyTorch module has no layer {kind!r}")


def _merged(images: torch.Tensor) -> torch.Tensor:
    """The four pixels of each square, one after the other in the channels."""
    parts = [images[:, :, y::2, x::2] for x in (0, 1) for y in (0, 1)]
    return torch.cat(parts, 1)


def _is_whole(pool: dict[str, Any]) -> bool:
    """Whether the only window of a pool is the whole image."""
    padded = any((*pool["padding"], *pool["extra_padding"]))
    return not padded and list(pool["kernel"]) == list(pool["input_shape"][1:])


# Layers whose result no other layer uses, and which do not need it for their gradients: the next
# layer may overwrite it. The first layer of a branch may not overwrite its input, which the other
# branches use too.
OWN_RESULT = (
    *("conv2d", "conv2d_transposed", "dense", "batch_norm", "group_norm"),
    *("add", "concat"),
)
SIMPLE = {
    "tanh": nn.Tanh,
    "relu6": nn.ReLU6,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "hard_swish": lambda: Apply(hard_swish),
    "flatten": nn.Flatten,
    "global_avg_pool2d": lambda: Apply(lambda images: images.mean((2, 3))),
    "rows": lambda: Apply(lambda images: images.squeeze(1)),
    "tokens": lambda: Apply(lambda images: images.flatten(2).transpose(1, 2)),
    "first_token": lambda: Apply(lambda sequence: sequence[:, 0]),
    "mean_token": lambda: Apply(lambda sequence: sequence.mean(1)),
    "reverse": lambda: Apply(lambda sequence: sequence.flip(1)),
    "patch_merging": lambda: Apply(_merged),
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


def parameter_of(modules: dict[str, nn.Module], name: str) -> nn.Parameter:
    """The parameter with the canonical name `name`."""
    layer, role = name.split(".")
    module = modules[layer]
    if isinstance(module, Recurrent) and role == "bias":
        return module.cell.bias_ih_l0
    return module.get_parameter(ROLES.get(role, role))
