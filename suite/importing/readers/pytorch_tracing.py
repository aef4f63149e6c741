"""The graph of a module, also of one whose code asks for the shapes of its tensors.

`torch.fx` alone has no numbers: code such as `if x.shape[1] % 2` or `range(x.size(1))` ends its
tracing. Here each traced value has a fake tensor beside it, which knows its shape without data.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .common import Refused
from .pytorch_modules import is_drop_path
from .pytorch_recurrent import KINDS
from .pytorch_windows import is_attention

BATCH = 2  # samples that are propagated to find the shapes


def trace(
    module: nn.Module, shape: tuple[int, ...]
) -> tuple[fx.GraphModule, dict[str, Any], list[str]]:
    """The graph, the shape of each result, and notes; in training mode where it has one result."""
    notes: list[str] = []
    for training in (True, False):
        module.train(training)
        traced = fx.GraphModule(module, Tracer((BATCH, *shape)).trace(module))
        traced.graph.eliminate_dead_code()  # such as the unused state of a recurrent layer
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
        # Of an attention the second result is its weights, which are None here; of a recurrent
        # layer it is the last state.
        several = isinstance(result, tuple)
        recurrent = n.op == "call_module" and type(self.fetch_attr(str(n.target))) in KINDS
        first = result[0] if several and (result[1:] == (None,) or recurrent) else result
        if isinstance(first, torch.Tensor):
            n.meta["shape"] = tuple(first.shape)
            self.found[n.name] = tuple(first.shape[1:])
        return result


class Known(fx.Proxy):
    """A traced value; `value` is its fake tensor, or None where it is unknown."""

    value: Any = None

    @property
    def shape(self) -> Any:
        return self.value.shape if self._is_tensor else super().__getattr__("shape")

    @property
    def ndim(self) -> Any:
        return self.value.ndim if self._is_tensor else super().__getattr__("ndim")

    @property
    def dtype(self) -> Any:
        return self.value.dtype if self._is_tensor else super().__getattr__("dtype")

    @property
    def device(self) -> Any:  # that of the real tensors
        return torch.device("cpu") if self._is_tensor else super().__getattr__("device")

    def size(self, *axis: Any) -> Any:
        return self.value.size(*axis) if self._is_tensor else super().__getattr__("size")(*axis)

    def __len__(self) -> int:
        return int(self.shape[0]) if self._is_tensor else super().__len__()

    def dim(self) -> Any:
        return self.ndim

    @property
    def _is_tensor(self) -> bool:
        return isinstance(self.value, torch.Tensor)


class Tracer(fx.Tracer):
    """Traces for inputs of one shape (batch, ...); does not trace what is one layer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._input = self._mode.from_tensor(torch.zeros(shape))
        self._computes = False  # a fake value, with modules and parameters as they are

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        own = is_attention(m) or is_drop_path(m)
        return own or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return Known(node, self)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if self._computes:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if self._computes:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **others: Any
    ) -> Any:
        """The traced value. An argument of the module with a default has that."""
        if kind == "placeholder" and args:
            return args[0]
        proxy = super().create_proxy(kind, target, args, kwargs, *more, **others)
        if isinstance(proxy, Known) and not self._computes:
            proxy.value = self._value(kind, target, args, kwargs)
        return proxy

    def _value(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "placeholder":
            return self._input
        args, kwargs = (fx.node.map_aggregate(each, _value_of) for each in (args, kwargs))
        self._computes = True
        try:
            with self._mode, torch.no_grad():
                return self._computed(kind, target, args, kwargs)
        except Exception:  # what is unknown here is traced as torch.fx does it
            return None
        finally:
            self._computes = False

    def _computed(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "call_function":
            return target(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if kind == "call_module":
            return self.root.get_submodule(target).forward(*args, **kwargs)
        owner, _, attribute = target.rpartition(".")
        return getattr(self.root.get_submodule(owner), attribute)


def _value_of(part: Any) -> Any:
    return part.value if isinstance(part, Known) else part
