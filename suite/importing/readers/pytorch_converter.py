"""The operations of a traced module as nodes of a graph of layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from . import common
from . import pytorch_signals as signals
from . import pytorch_windows as windows
from .common import Layer, Refused
from .pytorch_attention import Attentions
from .pytorch_attributes import of_attribute
from .pytorch_modules import ENDINGS, MODULES, drop_path, is_drop_path
from .pytorch_operations import FUNCTIONS, OPERATIONS
from .pytorch_recurrent import KINDS, weights
from .pytorch_shapes import LAST, POINTWISE, Form, reshaped


class Converter:
    """The operations of a traced module as nodes of a graph of layers."""

    def __init__(self, module: nn.Module, traced: fx.GraphModule, shapes: dict[str, Any]) -> None:
        self._module, self._traced, self._shapes = module, traced, shapes
        self._modules = dict(traced.named_modules())
        self._names: dict[str, str] = {}  # of a node, by that of fx
        self._attributes: dict[str, torch.Tensor] = {}  # tensors of modules, by the node of fx
        self._attentions = Attentions(traced)
        self._parts: dict[str, tuple[fx.Node, list[int]]] = {}  # what is split, and the sizes
        self._forms: dict[str, Form] = {}  # of results that no layer has: by the node of fx
        self._signals: set[str] = set()  # results (channels, length), images of height 1 here
        self._with_parameters: dict[int, str] = {}
        self.input_shape: tuple[int, ...] = ()  # of the layers
        self.ends_as_signal = False
        self.ending: str | None = None  # one of ENDINGS, the last operation
        self.weights: dict[str, Any] = {}

    def convert(self) -> tuple[list[Layer], list[Layer]]:
        """The nodes, and the operations that cannot be taken."""
        nodes: list[Layer] = []
        refusals: list[Layer] = []
        inside = self._attentions.inside
        for node in self._traced.graph.nodes:
            if node.op == "placeholder":
                nodes += self._input(node)
                continue
            if node.name in inside:
                continue
            # A size, or a part of one, is no node: the shapes are known.
            if self._is_prepared(node) or node.op == "output" or node.name not in self._shapes:
                continue
            tensors = self._tensors(node)
            name = self._named(node)
            try:
                self.ending = self._ending(node)
                layer = None if self.ending else self._layer(node, tensors)
            except Refused as error:
                layer = None
                refusals.append(self._refusal(node, str(error)))
            inputs = [self._names[each.name] for each in tensors]
            nodes.append({"name": name, "inputs": inputs, "layer": layer})
        output = next(node for node in self._traced.graph.nodes if node.op == "output").args[0]
        end, self.ends_as_signal = self._names[output.name], output.name in self._signals
        if nodes[-1]["name"] != end:
            nodes.append({"name": "end", "inputs": [end], "layer": None})
        return nodes, refusals

    def _input(self, node: fx.Node) -> list[Layer]:
        """The nodes of the input; one with two axes is a signal or a sequence."""
        name, shape = self._named(node, "input"), self._shapes[node.name]
        made: list[Layer] = [{"name": name, "inputs": [], "layer": None}]
        self.input_shape = shape
        if len(shape) != 2:
            return made
        if any(self._takes_signal(each) for each in node.users):
            self._signals.add(node.name)
            self.input_shape = signals.as_image(shape)
            return made
        self.input_shape = (1, *shape)
        rows = common.as_name("rows", {name})
        self._names[node.name] = rows
        return [*made, {"name": rows, "inputs": [name], "layer": {"kind": "rows"}}]

    def _takes_signal(self, node: fx.Node) -> bool:
        module = self._modules[str(node.target)] if node.op == "call_module" else None
        return signals.takes_signal(module, _operation(node))

    def _shape(self, name: str) -> Any:
        """The shape of a result as layers have it."""
        shape = self._shapes[name]
        return signals.as_image(shape) if name in self._signals else shape

    def _ending(self, node: fx.Node) -> str | None:
        """The part of a loss that the node is, over the outputs and the last operation."""
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            name, axis = ENDINGS.get(type(module)), getattr(module, "dim", None)
        else:
            name = _operation(node)
            axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        last = all(user.op == "output" for user in node.users)
        outputs = name == "sigmoid" or axis in (1, -1)
        one_axis = len(self._shapes[node.name]) == 1
        return name if name in ENDINGS.values() and last and outputs and one_axis else None

    def _is_prepared(self, node: fx.Node) -> bool:
        """Whether the node is a part of a later one: a tensor of the module, or a split."""
        first = node.args[0] if node.args else None
        if node.op == "get_attr":
            self._attributes[node.name] = self._attribute(str(node.target))
            return True
        if not isinstance(first, fx.Node):
            return False
        if node.target in ("expand", "repeat") and first.name in self._attributes:
            self._attributes[node.name] = self._attributes[first.name]
            return True
        values = self._attributes.get(first.name)
        if node.target in ("reshape", "view") and isinstance(values, nn.Parameter):
            moved = values.detach().reshape(node.meta["shape"])
            self._attributes[node.name] = nn.Parameter(moved)
            return True
        name = _operation(node)
        if name in ("chunk", "split") and node.name not in self._shapes:
            self._parts[node.name] = first, _sizes(node, str(name), self._shape(first.name))
            return True
        return False

    def _attribute(self, target: str) -> torch.Tensor:
        """A tensor of the module, or of its traced form, which has those that tracing found.

        The traced form has copies of the module's own, which are those before a change.
        """
        owner, _, name = target.rpartition(".")
        try:
            found: torch.Tensor = getattr(self._module.get_submodule(owner), name)
        except AttributeError:
            found = getattr(self._traced.get_submodule(owner), name)
        return found

    def _named(self, node: fx.Node, name: str | None = None) -> str:
        """A unique name: the place of the module, or that of the operation."""
        text = name or (str(node.target) if node.op == "call_module" else node.name)
        text = common.as_name(text, set(self._names.values()))
        self._names[node.name] = text
        return text

    def _tensors(self, node: fx.Node) -> list[fx.Node]:
        """The inputs that are results of the graph, in order, each once unless it is a join."""
        if attention := self._attentions.found.get(node.name):
            return [attention.source]
        given = _nodes(node)
        found = [self._parts[each.name][0] if each.name in self._parts else each for each in given]
        found = [each for each in found if each.name in self._shapes]
        found = [each for each in found if each.name not in self._attributes]
        # An attention has its queries, keys and values from one tensor.
        return found if node.op != "call_module" else list(dict.fromkeys(found))

    def _refusal(self, node: fx.Node, reason: str) -> Layer:
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

    def _layer(self, node: fx.Node, tensors: list[fx.Node]) -> Layer | None:
        if attention := self._attentions.found.get(node.name):
            self._keep_values(node, attention.weights)
            if attention.layer["kind"] == "window_attention":
                if self._forms.get(attention.source.name) != Form("last"):
                    raise Refused("windows are of an image with channels last")
                self._forms[node.name] = Form("last")
            return attention.layer
        if reason := self._attentions.refused.get(node.name):
            raise Refused(reason)
        before = [self._shape(each.name) for each in tensors]
        if not before:
            raise Refused("a result that depends on no input")
        after = self._shapes[node.name]
        forms = {self._forms.get(each.name) for each in tensors}
        name = _operation(node)
        if any(each.name in self._signals for each in tensors):
            if (of_signal := self._of_signal(node, str(name))) is not None:
                return of_signal
            after = self._shape(node.name)
        if node.op != "call_module" and len(forms) == 1:
            (form,) = forms
            if (found := reshaped(str(name), node, form, before[0], after)) is not None:
                layer, made = found
                if made:
                    self._forms[node.name] = made
                return layer
        if node.op == "call_module":
            layer = self._of_module(node, before, after, forms)
        else:
            layer = self._of_operation(node, str(name), before, after)
        if forms != {None}:
            form = forms.pop() if len(forms) == 1 else None
            if form is None or form not in LAST or not self._pointwise(layer):
                raise Refused("its input has another order of axes than layers have")
            self._forms[node.name] = form
        return layer

    def _of_signal(self, node: fx.Node, name: str) -> Layer | None:
        """The layer that only a signal has; None where it is that of an image."""
        if (turned := signals.turned(name, node)) is not None:
            return turned
        if len(self._shapes[node.name]) == 2:
            self._signals.add(node.name)
        first = node.args[0] if node.args else None
        if name == "getitem" and isinstance(first, fx.Node) and first.name in self._signals:
            return signals.cropped(node, self._shapes[first.name][1])
        return None

    def _pointwise(self, layer: Layer | None) -> bool:
        """Whether a layer takes an image with channels last as one with channels first."""
        if layer is None or layer["kind"] in (*POINTWISE, "window_attention", "patch_merging"):
            return True
        return bool(layer.get("kernel") == [1, 1])

    def _of_module(self, node: fx.Node, before: Any, after: Any, forms: Any) -> Layer | None:
        module = self._modules[str(node.target)]
        make = windows.attention if windows.is_attention(module) else MODULES.get(type(module))
        make = drop_path if is_drop_path(module) else make
        if make is None:
            raise Refused("no layer is this module")
        layer = make(module, before[0], after)
        channels_last = forms <= {*LAST}
        if channels_last and layer and layer["kind"] in ("dense", "layer_norm"):
            layer = _of_channels(layer)
        if layer and any(True for _ in module.parameters()):
            self._keep(node, module, layer)
        return layer

    def _of_operation(self, node: fx.Node, name: str, before: Any, after: Any) -> Layer | None:
        names = [each.name for each in _nodes(node)]
        given = {each: self._attributes[each] for each in names if each in self._attributes}
        if given:
            last = self._forms.get(self._tensors(node)[0].name) in LAST
            layer, found = of_attribute(name, node, given, before[0], after, channels_last=last)
            self._keep_values(node, found)
            return layer
        if name == "getitem" and (part := self._part(node)):
            return part
        make = OPERATIONS.get(name)
        if make is None:
            raise Refused("no layer is this operation")
        return make(node, before, after)

    def _part(self, node: fx.Node) -> Layer | None:
        """The channels of a part of what was split; None where the node takes another part."""
        first, index = node.args
        if not isinstance(first, fx.Node) or first.name not in self._parts:
            return None
        sizes = self._parts[first.name][1]
        assert isinstance(index, int)
        start = sum(sizes[:index])
        return {"kind": "channel_slice", "start": start, "stop": start + sizes[index]}

    def _keep_values(self, node: fx.Node, values: dict[str, torch.Tensor]) -> None:
        for role, each in values.items():
            self.weights[f"{self._names[node.name]}.{role}"] = each.detach().double().numpy()

    def _keep(self, node: fx.Node, module: nn.Module, layer: Layer) -> None:
        """Keep the weights of a layer; one that is used twice is refused."""
        if earlier := self._with_parameters.get(id(module)):
            raise Refused(f"its weights are those of {earlier} too: shared weights have no layer")
        self._with_parameters[id(module)] = str(node.target)
        name = self._names[node.name]
        if own := WEIGHTS.get(layer["kind"]):
            # A role may begin with the part of the module that has it.
            for role, each in own(module).items():
                self.weights[f"{name}{'' if role.startswith('_') else '.'}{role}"] = each
            return
        for role, values in (*module.named_parameters(), *module.named_buffers()):
            if role == "num_batches_tracked":
                continue
            kept = values.detach().double().numpy()
            if layer["kind"] in ("conv2d", "conv2d_transposed") and role == "weight":
                kept = kept.reshape(*kept.shape[:2], *layer["kernel"])
            self.weights[f"{name}.{ROLES.get(role, role)}"] = kept


# The weights of kinds whose modules have others, by our roles.
WEIGHTS = {"window_attention": windows.weights, **dict.fromkeys(KINDS.values(), weights)}
# Our names of parameters and statistics, where they are others.
ROLES = {
    "running_mean": "mean",
    "running_var": "variance",
    "in_proj_weight": "in_weight",
    "in_proj_bias": "in_bias",
    "out_proj.weight": "out_weight",
    "out_proj.bias": "out_bias",
}


def _operation(node: fx.Node) -> str | None:
    """The name by which OPERATIONS may have a function or method; None for other functions."""
    if isinstance(node.target, str):
        return node.target
    if getattr(node.target, "__module__", "").startswith("torchvision."):
        return getattr(node.target, "__name__", None)
    return FUNCTIONS.get(node.target)


def _nodes(node: fx.Node) -> list[fx.Node]:
    """The nodes among the arguments, once for each place, in order."""
    found: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), lambda each: found.append(each))
    return found


def _of_channels(layer: Layer) -> Layer:
    """A layer over the last axis of an image with channels last, as one over its channels."""
    if layer["kind"] == "layer_norm":
        return {**layer, "images": True}
    return {
        "kind": "conv2d",
        "in_channels": layer["in_features"],
        "out_channels": layer["out_features"],
        "kernel": [1, 1],
        "bias": layer["bias"],
    }


def _sizes(node: fx.Node, name: str, shape: tuple[int, ...]) -> list[int]:
    """The sizes of the parts of a chunk or split along the channels."""
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("chunks")
    axis = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    if axis != 1 or len(shape) != 3:
        return []  # the parts are refused
    channels = shape[0]
    if name == "chunk":
        size = -(-channels // int(given))
    elif isinstance(given, int):
        size = given
    else:
        return [int(each) for each in given]
    return [min(size, channels - start) for start in range(0, channels, size)]
