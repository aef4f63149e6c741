"""A trial's layers as a network of Caffe: images are (N, channels, height, width)."""

from __future__ import annotations

from typing import Any

from caffe.proto import caffe_pb2

from ...protocol import Trial

DATA, LABELS, LOGITS, LOSS = "data", "labels", "logits", "loss"
# The parameters of our layers, by the position of Caffe's blob.
ROLES = dict.fromkeys(("conv2d", "dense", "batch_norm"), ("weight", "bias"))
IN_PLACE = {"relu", "leaky_relu", "tanh", "sigmoid", "dropout"}  # they need only their result


def scale_of(name: str) -> str:
    """The layer with the scale and the bias of a batch norm."""
    return f"{name}/scale"


class Builder:
    """A network for training, or for inference. `blob` has the results of the last layer."""

    def __init__(self, trial: Trial, *, training: bool) -> None:
        self.net = caffe_pb2.NetParameter(name=trial.trial_id)
        self._training = training
        shape = trial.rank_batch_size, *trial.architecture["input_shape"]
        self._input(DATA, shape)
        self.blob = self._series(trial.layers, DATA)
        self._add("Power", LOGITS, [self.blob])  # the identity: a name for the last result
        if training:
            self._input(LABELS, (trial.rank_batch_size,))
            self._add("SoftmaxWithLoss", LOSS, [LOGITS, LABELS])

    def _input(self, name: str, shape: tuple[int, ...]) -> None:
        layer = self.net.layer.add(name=name, type="Input", top=[name])
        layer.input_param.shape.add(dim=shape)

    def _add(self, kind: str, name: str, bottoms: list[str], *, in_place: bool = False) -> Any:
        """A layer of Caffe with one result, which has the layer's name, or replaces its input."""
        top = bottoms[0] if in_place else name
        self.blob = top
        return self.net.layer.add(name=name, type=kind, bottom=bottoms, top=[top])

    def _series(self, layers: list[dict[str, Any]], blob: str) -> str:
        """The layers after `blob`; the first one never changes it, which others may need too."""
        for number, layer in enumerate(layers):
            self._lower(layer, blob, first=number == 0)
            blob = self.blob
        return blob

    def _lower(self, layer: dict[str, Any], blob: str, *, first: bool) -> None:
        kind, name = layer["kind"], layer["name"]
        if kind == "add":
            self._join(layer, blob, "Eltwise").eltwise_param.operation = SUM
        elif kind == "concat":
            self._join(layer, blob, "Concat")
        elif kind in ACTIVATIONS:
            self._activation(layer, blob, in_place=kind in IN_PLACE and not first)
        elif kind in LAYERS:
            LAYERS[kind](self, layer, name, blob)
        else:
            raise NotImplementedError(f"Caffe module has no layer {kind!r}")

    def _join(self, layer: dict[str, Any], blob: str, kind: str) -> Any:
        ends = [self._series(branch, blob) for branch in layer["branches"]]
        return self._add(kind, layer["name"], ends)

    def _activation(self, layer: dict[str, Any], blob: str, *, in_place: bool) -> None:
        kind, name = layer["kind"], layer["name"]
        made = self._add(ACTIVATIONS[kind], name, [blob], in_place=in_place)
        if kind == "leaky_relu":
            made.relu_param.negative_slope = layer["slope"]
        elif kind == "dropout":
            made.dropout_param.dropout_ratio = layer["rate"]

    def _relu6(self, layer: dict[str, Any], name: str, blob: str) -> None:
        """Clip alone has the gradient 1 at 0."""
        self._add("ReLU", f"{name}/relu", [blob])
        clip = self._add("Clip", name, [self.blob]).clip_param
        clip.min, clip.max = 0, 6

    def _convolution(self, layer: dict[str, Any], name: str, blob: str) -> None:
        options = self._add("Convolution", name, [blob]).convolution_param
        options.num_output, options.group = layer["out_channels"], layer["groups"]
        options.bias_term = layer["bias"]
        options.kernel_h, options.kernel_w = layer["kernel"]
        options.stride_h, options.stride_w = layer["stride"]
        options.pad_h, options.pad_w = layer["padding"]
        options.dilation.extend(layer["dilation"])

    def _dense(self, layer: dict[str, Any], name: str, blob: str) -> None:
        options = self._add("InnerProduct", name, [blob]).inner_product_param
        options.num_output, options.bias_term = layer["out_features"], layer["bias"]

    def _pool(self, layer: dict[str, Any], name: str, blob: str) -> None:
        options = self._add("Pooling", name, [blob]).pooling_param
        options.pool = MAX if layer["kind"] == "max_pool2d" else AVERAGE
        options.kernel_h, options.kernel_w = layer["kernel"]
        options.stride_h, options.stride_w = layer["stride"]
        options.pad_h, options.pad_w = layer["padding"]
        options.round_mode = CEIL if layer.get("ceil") else FLOOR

    def _global_pool(self, layer: dict[str, Any], name: str, blob: str) -> None:
        options = self._add("Pooling", f"{name}/pool", [blob]).pooling_param
        options.pool, options.global_pooling = AVERAGE, True
        self._add("Flatten", name, [self.blob])

    def _flatten(self, layer: dict[str, Any], name: str, blob: str) -> None:
        self._add("Flatten", name, [blob])

    def _local_response_norm(self, layer: dict[str, Any], name: str, blob: str) -> None:
        options = self._add("LRN", name, [blob]).lrn_param
        options.local_size, options.alpha = layer["size"], layer["alpha"]
        options.beta, options.k = layer["beta"], layer["k"]

    def _batch_norm(self, layer: dict[str, Any], name: str, blob: str) -> None:
        # In inference its statistics are not those that training shares: see `norms`.
        norm = name if self._training else f"{name}/inference"
        options = self._add("BatchNorm", norm, [blob]).batch_norm_param
        options.eps, options.moving_average_fraction = layer["epsilon"], 1 - layer["momentum"]
        self._add("Scale", scale_of(name), [self.blob], in_place=True).scale_param.bias_term = True


_POOL, _ELTWISE = caffe_pb2.PoolingParameter, caffe_pb2.EltwiseParameter
MAX, AVERAGE, CEIL, FLOOR = _POOL.MAX, _POOL.AVE, _POOL.CEIL, _POOL.FLOOR
SUM = _ELTWISE.SUM
ACTIVATIONS = {
    "relu": "ReLU",
    "leaky_relu": "ReLU",
    "tanh": "TanH",
    "sigmoid": "Sigmoid",
    "silu": "Swish",
    "dropout": "Dropout",
}
LAYERS = {
    "conv2d": Builder._convolution,
    "dense": Builder._dense,
    "max_pool2d": Builder._pool,
    "avg_pool2d": Builder._pool,
    "global_avg_pool2d": Builder._global_pool,
    "flatten": Builder._flatten,
    "batch_norm": Builder._batch_norm,
    "relu6": Builder._relu6,
    "local_response_norm": Builder._local_response_norm,
}
