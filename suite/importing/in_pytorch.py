"""Run by the Python of PyTorch's environment: a module of the user as a graph of operations.

    python in_pytorch.py REQUEST.json

The request has `source` (a .py file, or the name of a module), `name` (a class, a function without
arguments, or a module object), `input` (the shape of a sample), `samples`, `seed`, and `folder`.
Into the folder go `graph.json`, `weights.npz` (float64, by layer and role), `inputs.npy` (float32)
and `logits.npy` (float64), the results of the user's own module in inference.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

BATCH = 2  # samples that are propagated to find the shapes


class Refused(Exception):
    """An operation that is none of the layers; the text says what would be needed."""


def main(request: dict[str, Any]) -> None:
    folder = Path(request["folder"])
    torch.manual_seed(request["seed"])
    module = load(request["source"], request["name"])
    shape = tuple(request["input"])
    traced, shapes, notes = trace(module, shape)
    graph = Converter(traced, shapes)
    nodes, refusals = graph.convert()
    np.savez(folder / "weights.npz", **graph.weights)
    random = np.random.default_rng(request["seed"])
    inputs = random.standard_normal((request["samples"], *shape)).astype(np.float32)
    np.save(folder / "inputs.npy", inputs)
    logits = module.double().eval()(torch.from_numpy(inputs.astype(np.float64)))
    np.save(folder / "logits.npy", logits.detach().numpy())
    values = {
        "nodes": nodes,
        "refusals": refusals,
        "notes": notes,
        "classes": int(logits.shape[-1]),
        "shape": shape,
        "runtime": f"PyTorch {torch.__version__}, float64",
    }
    (folder / "graph.json").write_text(json.dumps(values, indent=1))


def load(source: str, name: str) -> nn.Module:
    """The module of the user, with its weights."""
    if source.endswith(".py"):
        sys.path.insert(0, str(Path(source).parent))
        spec = importlib.util.spec_from_file_location("users_model", source)
        assert spec is not None and spec.loader is not None
        python = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(python)
    else:
        python = importlib.import_module(source)
    found = getattr(python, name)
    made = found if isinstance(found, nn.Module) else found()
    if not isinstance(made, nn.Module):
        raise TypeError(f"{name} is a {type(made).__name__}, not a torch.nn.Module")
    return made


def trace(
    module: nn.Module, shape: tuple[int, ...]
) -> tuple[fx.GraphModule, dict[str, Any], list[str]]:
    """The graph, the shape of each result, and notes; in training mode where it has one result."""
    notes: list[str] = []
    for training in (True, False):
        module.train(training)
        traced = fx.GraphModule(module, fx.Tracer().trace(module))
        shapes = Shapes(traced).of(torch.zeros(BATCH, *shape))
        output = next(node for node in traced.graph.nodes if node.op == "output").args[0]
        if isinstance(output, fx.Node) and output.name in shapes:
            return traced, shapes, notes
        notes.append("several results in training: traced in inference, without functional dropout")
    raise Refused(f"the module returns {output!r}, not one tensor")


class Shapes(fx.Interpreter):
    """Runs the graph and keeps the shape of each tensor."""

    def of(self, inputs: torch.Tensor) -> dict[str, Any]:
        self.found: dict[str, Any] = {}
        training = {each: each.training for each in self.module.modules()}
        with torch.no_grad():
            self.module.eval()  # batch norms keep their statistics
            self.run(inputs)
        for each, mode in training.items():
            each.training = mode
        return self.found

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.found[n.name] = tuple(result.shape[1:])
        return result


class Converter:
    """The operations of a traced module as nodes of a graph of layers."""

    def __init__(self, traced: fx.GraphModule, shapes: dict[str, Any]) -> None:
        self._traced, self._shapes = traced, shapes
        self._modules = dict(traced.named_modules())
        self._names: dict[str, str] = {}  # of a node, by that of fx
        self._with_parameters: dict[int, str] = {}
        self.weights: dict[str, Any] = {}

    def convert(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The nodes, and the operations that cannot be taken."""
        nodes: list[dict[str, Any]] = []
        refusals: list[dict[str, Any]] = []
        for node in self._traced.graph.nodes:
            if node.op == "placeholder":
                nodes.append({"name": self._named(node, "input"), "inputs": [], "layer": None})
                continue
            if node.op == "output" or node.name not in self._shapes:
                continue  # a size, or a part of one: the shapes are known
            inputs = [self._names[each.name] for each in self._tensors(node)]
            name = self._named(node)
            try:
                layer = self._layer(node)
            except Refused as error:
                layer = None
                refusals.append(self._refusal(node, str(error)))
            nodes.append({"name": name, "inputs": inputs, "layer": layer})
        output = next(node for node in self._traced.graph.nodes if node.op == "output").args[0]
        end = self._names[output.name]
        if nodes[-1]["name"] != end:
            nodes.append({"name": "end", "inputs": [end], "layer": None})
        return nodes, refusals

    def _named(self, node: fx.Node, name: str | None = None) -> str:
        """A unique name: the place of the module, or that of the operation."""
        text = name or (str(node.target) if node.op == "call_module" else node.name)
        text = "".join(each if each.isalnum() else "_" for each in text.lower())
        text = text if text[0].isalpha() else f"layer{text}"
        while text in self._names.values():
            text += "_again"
        self._names[node.name] = text
        return text

    def _tensors(self, node: fx.Node) -> list[fx.Node]:
        """The inputs that are tensors of the graph, in order."""
        found: list[fx.Node] = []
        fx.map_arg((node.args, node.kwargs), lambda each: found.append(each))
        # map_arg visits each argument once for each place, in order.
        return [each for each in found if each.name in self._shapes]

    def _refusal(self, node: fx.Node, reason: str) -> dict[str, Any]:
        target = self._modules[str(node.target)] if node.op == "call_module" else node.target
        name = (
            type(target).__name__
            if node.op == "call_module"
            else getattr(target, "__name__", target)
        )
        before = [self._shapes[each.name] for each in self._tensors(node)]
        return {
            "operator": str(name),
            "place": str(node.target) if node.op == "call_module" else node.name,
            "input": before[0] if before else None,
            "reason": reason,
        }

    def _layer(self, node: fx.Node) -> dict[str, Any] | None:
        before = [self._shapes[each.name] for each in self._tensors(node)]
        after = self._shapes[node.name]
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            make = MODULES.get(type(module))
            if make is None:
                raise Refused("no layer is this module")
            layer = make(module, before[0], after)
            if layer and any(True for _ in module.parameters(recurse=False)):
                self._keep(node, module)
            return layer
        if node.op == "get_attr":
            raise Refused("a tensor of the module that is no parameter of a layer")
        name = node.target if isinstance(node.target, str) else FUNCTIONS.get(node.target)
        if name is None and getattr(node.target, "__module__", "").startswith("torchvision."):
            name = getattr(node.target, "__name__", None)
        make = OPERATIONS.get(str(name))
        if make is None:
            raise Refused("no layer is this operation")
        return make(node, before, after)

    def _keep(self, node: fx.Node, module: nn.Module) -> None:
        """Keep the weights of a layer; one that is used twice is refused."""
        if earlier := self._with_parameters.get(id(module)):
            raise Refused(f"its weights are those of {earlier} too: shared weights have no layer")
        self._with_parameters[id(module)] = str(node.target)
        name = self._names[node.name]
        roles = {"running_mean": "mean", "running_var": "variance"}
        for role, values in (
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
        ):
            if role != "num_batches_tracked":
                self.weights[f"{name}.{roles.get(role, role)}"] = values.detach().double().numpy()


def pair(value: Any) -> list[int]:
    return [int(value)] * 2 if isinstance(value, int) else [int(each) for each in value]


def conv2d(module: nn.Conv2d, before: Any, after: Any) -> dict[str, Any]:
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise Refused(f"padding={module.padding!r}, {module.padding_mode}: zeros in numbers")
    return {
        "kind": "conv2d",
        "in_channels": module.in_channels,
        "out_channels": module.out_channels,
        "kernel": pair(module.kernel_size),
        "stride": pair(module.stride),
        "padding": pair(module.padding),
        "bias": module.bias is not None,
        "groups": module.groups,
        "dilation": pair(module.dilation),
    }


def linear(module: nn.Linear, before: Any, after: Any) -> dict[str, Any]:
    return {
        "kind": "dense",
        "in_features": module.in_features,
        "out_features": module.out_features,
        "bias": module.bias is not None,
    }


def batch_norm(module: nn.BatchNorm2d, before: Any, after: Any) -> dict[str, Any]:
    if len(before) != 3:
        raise Refused("a batch norm takes images")
    if not module.affine or not module.track_running_stats or module.momentum is None:
        raise Refused("a batch norm has a scale, a bias, running statistics and a momentum")
    numbers = {"epsilon": module.eps, "momentum": module.momentum}
    return {"kind": "batch_norm", "channels": module.num_features, **numbers, "initial_scale": 1.0}


def layer_norm(module: nn.LayerNorm, before: Any, after: Any) -> dict[str, Any]:
    if len(module.normalized_shape) != 1 or not module.elementwise_affine or module.bias is None:
        raise Refused("a layer norm is over the last axis, with a scale and a bias")
    return {"kind": "layer_norm", "features": module.normalized_shape[0], "epsilon": module.eps}


def max_pool(kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> dict[str, Any]:
    if pair(dilation) != [1, 1]:
        raise Refused(f"dilation={dilation}: a pool has none")
    sizes = {"kernel": pair(kernel), "stride": pair(stride or kernel), "padding": pair(padding)}
    return {"kind": "max_pool2d", **sizes, "ceil": bool(ceil)}


def avg_pool(
    kernel: Any, stride: Any, padding: Any, ceil: bool, count: bool, divisor: Any
) -> dict[str, Any]:
    if ceil or divisor is not None or (any(pair(padding)) and not count):
        raise Refused("an average pool has whole windows, and padding counts as zeros")
    sizes = {"kernel": pair(kernel), "stride": pair(stride or kernel), "padding": pair(padding)}
    return {"kind": "avg_pool2d", **sizes}


def adaptive_pool(before: Any, after: Any) -> dict[str, Any] | None:
    """A pool whose windows are equal: the mean over all, or over parts of one size."""
    if tuple(before) == tuple(after):
        return None
    sizes = [(inner, outer) for inner, outer in zip(before[1:], after[1:], strict=True)]
    if any(inner % outer for inner, outer in sizes):
        raise Refused(f"{before[1:]} to {after[1:]}: the windows have several sizes")
    kernel = [inner // outer for inner, outer in sizes]
    return {"kind": "avg_pool2d", "kernel": kernel, "stride": kernel, "padding": [0, 0]}


def dropout(rate: float, *, whole: bool = False) -> dict[str, Any] | None:
    return {"kind": "dropout", "rate": float(rate), "whole": whole} if rate else None


def stochastic_depth(node: fx.Node, before: Any, after: Any) -> dict[str, Any] | None:
    """Of torchvision; traced in inference, it is nothing."""
    if not argument(node, 3, "training", True):
        return None
    if argument(node, 2, "mode") != "row":
        raise Refused("stochastic depth leaves out single samples, not the batch")
    return dropout(argument(node, 1, "p"), whole=True)


def simple(kind: str) -> Callable[..., dict[str, Any]]:
    return lambda *_: {"kind": kind}


def gelu(approximate: str) -> dict[str, Any]:
    if approximate != "none":
        raise Refused(f"approximate={approximate!r}: GELU is the exact one")
    return {"kind": "gelu"}


def leaky_relu(slope: float) -> dict[str, Any]:
    return {"kind": "leaky_relu", "slope": float(slope)}


ACTIVATIONS = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.ReLU6: "relu6",
    nn.Sigmoid: "sigmoid",
    nn.SiLU: "silu",
    nn.Hardsigmoid: "hard_sigmoid",
    nn.Hardswish: "hard_swish",
}
MODULES: dict[type, Callable[[Any, Any, Any], dict[str, Any] | None]] = {
    nn.Conv2d: conv2d,
    nn.Linear: linear,
    nn.BatchNorm2d: batch_norm,
    nn.LayerNorm: layer_norm,
    **{module: simple(kind) for module, kind in ACTIVATIONS.items()},
    nn.LeakyReLU: lambda module, before, after: leaky_relu(module.negative_slope),
    nn.GELU: lambda module, before, after: gelu(module.approximate),
    nn.Identity: lambda module, before, after: None,
    nn.Dropout: lambda module, before, after: dropout(module.p),
    nn.MaxPool2d: lambda m, before, after: max_pool(
        m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode
    ),
    nn.AvgPool2d: lambda m, before, after: avg_pool(
        m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad, m.divisor_override
    ),
    nn.AdaptiveAvgPool2d: lambda module, before, after: adaptive_pool(before, after),
    nn.Flatten: lambda module, before, after: flattened(before, after),
}


def flattened(before: Any, after: Any) -> dict[str, Any] | None:
    if tuple(before) == tuple(after):
        return None
    if len(before) == 3 and tuple(after) == (math.prod(before),):
        return {"kind": "flatten"}
    raise Refused(f"{before} to {after}: images become features only")


def reduced(node: fx.Node, before: Any, after: Any) -> dict[str, Any]:
    """A mean over height and width."""
    channels, *rest = before[0]
    if len(before[0]) == 3 and tuple(after) == (channels,):
        return {"kind": "global_avg_pool2d"}
    if len(before[0]) == 3 and tuple(after) == (channels, 1, 1):
        return {"kind": "avg_pool2d", "kernel": rest, "stride": rest, "padding": [0, 0]}
    raise Refused(f"{before[0]} to {after}: a mean is over height and width")


def multiplied(node: fx.Node, before: Any, after: Any) -> dict[str, Any]:
    if len(before) != 2 or len({len(each) for each in before}) != 1:
        raise Refused("a product is that of two tensors with as many axes")
    return {"kind": "multiply"}


def added(node: fx.Node, before: Any, after: Any) -> dict[str, Any]:
    if len(before) != 2 or before[0] != before[1] or node.kwargs.get("alpha", 1) != 1:
        raise Refused("a sum is that of two tensors of one shape")
    return {"kind": "add"}


def concatenated(node: fx.Node, before: Any, after: Any) -> dict[str, Any]:
    axis = argument(node, 1, "dim", 0)
    if axis not in (1, -len(after)):
        raise Refused(f"axis {axis}: a concatenation is along the channels")
    return {"kind": "concat"}


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


Operation = Callable[[fx.Node, Any, Any], dict[str, Any] | None]
OPERATIONS: dict[str, Operation] = {
    **{kind: simple(kind) for kind in ("relu", "tanh", "relu6", "sigmoid", "silu")},
    **{kind: simple(kind) for kind in ("hard_sigmoid", "hard_swish")},
    "leaky_relu": lambda node, before, after: leaky_relu(argument(node, 1, "negative_slope", 0.01)),
    "stochastic_depth": stochastic_depth,
    "gelu": lambda node, before, after: gelu(argument(node, 1, "approximate", "none")),
    "dropout": lambda node, before, after: dropout(
        argument(node, 1, "p", 0.5) if argument(node, 2, "training", True) else 0
    ),
    "flatten": lambda node, before, after: flattened(before[0], after),
    "view": lambda node, before, after: flattened(before[0], after),
    "reshape": lambda node, before, after: flattened(before[0], after),
    "contiguous": lambda node, before, after: None,
    "mean": reduced,
    "add": added,
    "mul": multiplied,
    "cat": concatenated,
    "max_pool2d": lambda node, before, after: max_pool(
        argument(node, 1, "kernel_size"),
        argument(node, 2, "stride"),
        argument(node, 3, "padding", 0),
        argument(node, 4, "dilation", 1),
        argument(node, 5, "ceil_mode", False),
    ),
    "avg_pool2d": lambda node, before, after: avg_pool(
        argument(node, 1, "kernel_size"),
        argument(node, 2, "stride"),
        argument(node, 3, "padding", 0),
        argument(node, 4, "ceil_mode", False),
        argument(node, 5, "count_include_pad", True),
        argument(node, 6, "divisor_override"),
    ),
    "adaptive_avg_pool2d": lambda node, before, after: adaptive_pool(before[0], after),
}
# The names of functions by which OPERATIONS has them; methods have their own names.
FUNCTIONS: dict[Any, str] = {
    functional.relu: "relu",
    torch.relu: "relu",
    torch.tanh: "tanh",
    functional.tanh: "tanh",
    functional.relu6: "relu6",
    torch.sigmoid: "sigmoid",
    functional.sigmoid: "sigmoid",
    functional.silu: "silu",
    functional.hardsigmoid: "hard_sigmoid",
    functional.hardswish: "hard_swish",
    functional.leaky_relu: "leaky_relu",
    operator.mul: "mul",
    operator.imul: "mul",
    torch.mul: "mul",
    functional.gelu: "gelu",
    functional.dropout: "dropout",
    torch.flatten: "flatten",
    torch.reshape: "reshape",
    torch.mean: "mean",
    operator.add: "add",
    operator.iadd: "add",
    torch.add: "add",
    torch.cat: "cat",
    torch.concat: "cat",
    functional.max_pool2d: "max_pool2d",
    torch.max_pool2d: "max_pool2d",
    functional.avg_pool2d: "avg_pool2d",
    functional.adaptive_avg_pool2d: "adaptive_avg_pool2d",
}


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
