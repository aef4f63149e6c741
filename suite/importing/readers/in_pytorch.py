"""A module of PyTorch as a graph of operations.

    python -m readers.in_pytorch REQUEST.json

The request has `source` (a .py file, or the name of a module), `name` (a class, a function without
arguments, or a module object), `input` (the shape of a sample), `samples`, `seed`, and `folder`.
Into the folder go `graph.json`, `inputs.npy`, and the weights with the results of the user's own
module in inference, twice (common.write_results).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import common
from .common import Refused
from .pytorch_converter import Converter
from .pytorch_modules import NORMS
from .pytorch_recurrent import NOTE
from .pytorch_tracing import trace
from .transformers_models import Language, is_known, must_be_known


def main(request: dict[str, Any]) -> None:
    folder, shape = Path(request["folder"]), tuple(request["input"])
    torch.manual_seed(request["seed"])
    module = load(request["source"], request["name"])
    try:
        read(module, shape, request, folder)
    except Refused as error:  # of the module as a whole
        refusal = {"operator": type(module).__name__, "place": request["name"], "input": shape}
        common.write(folder, {"refusals": [{**refusal, "reason": str(error)}]}, np.zeros(0))


def read(module: nn.Module, shape: tuple[int, ...], request: dict[str, Any], folder: Path) -> None:
    """Write the module's layers, and its results; Refused where it cannot be read."""
    source: Traced | Language = (
        Language(module, shape) if is_known(module) else Traced(module, shape)
    )
    source.convert()
    nodes, notes, refusals = source.nodes, source.notes, source.refusals
    inputs = source.inputs(request)
    module.double().eval()
    with torch.no_grad():
        results = source.run(inputs)
        logits = _of_positions(common.flat(results))
        common.write_results(folder, "own", source.weights, logits.numpy())
        if not refusals:
            some = inputs[: request["changed"]]
            source.change(some, request["seed"])
            source.convert()
            changed = _of_positions(common.flat(source.run(some)))
            common.write_results(folder, "changed", source.weights, changed.numpy())
    if results.ndim == 4 and logits.ndim == 2:
        common.flatten_at_the_end(nodes)
    if logits.ndim == 3 and isinstance(source, Traced):
        nodes.append({"name": "pixels", "inputs": [nodes[-1]["name"]], "layer": {"kind": "tokens"}})
        notes.append("the result is an image: a class for each of its pixels")
    precision = "float32 in parts" if source.in_float32 else "float64"
    values = {
        "nodes": nodes,
        "refusals": refusals,
        "notes": notes,
        "ending": source.ending,
        "classes": int(logits.shape[-1]),
        "shape": source.input_shape,
        "runtime": f"PyTorch {torch.__version__}, {precision}",
        "in_float32": source.in_float32,
    }
    common.write(folder, values, inputs.reshape(len(inputs), *source.input_shape))


class Traced:
    """A module that torch.fx traces, and its layers."""

    in_float32 = False

    def __init__(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        must_be_known(module)
        self._module, self._shape = module, shape
        self._traced, self._shapes, self._notes = trace(module, shape)

    def convert(self) -> None:
        """Make the nodes and the weights anew."""
        graph = Converter(self._module, self._traced, self._shapes)
        self.nodes, self.refusals = graph.convert()
        self.input_shape, self._ends_as_signal = graph.input_shape, graph.ends_as_signal
        self.weights, self.ending = graph.weights, graph.ending
        has_lstm = any(isinstance(each, nn.LSTM) for each in self._module.modules())
        self.in_float32 = has_lstm  # the sum of its two biases is rounded
        ending = [common.ENDING.format(self.ending)] if self.ending else []
        self.notes = [*self._notes, *ending, *([NOTE] if has_lstm else [])]

    def inputs(self, request: dict[str, Any]) -> Any:
        """Random inputs (samples, *shape)."""
        return common.random_inputs(request, self._shape)

    def run(self, inputs: Any) -> torch.Tensor:
        """The results for inputs in float64; signals as images."""
        result: torch.Tensor = self._module(torch.from_numpy(inputs.astype(np.float64)))
        return result.unsqueeze(2) if self._ends_as_signal else result

    def change(self, inputs: Any, seed: int) -> None:
        change(self._module, torch.from_numpy(inputs.astype(np.float64)), seed)


def _of_positions(result: torch.Tensor) -> torch.Tensor:
    """The result; an image (N, classes, height, width) as (N, pixels, classes)."""
    return result.flatten(2).transpose(1, 2) if result.ndim == 4 else result


def change(module: nn.Module, inputs: torch.Tensor, seed: int) -> None:
    """Add noise to the parameters of a module in float64; batch norms get the statistics of inputs.

    Without these the inputs vanish behind biases in a deep network. All values are rounded to
    float32, in which the layers get them.
    """
    random = np.random.default_rng(seed)
    for parameter in module.parameters():
        parameter.add_(torch.from_numpy(common.noise(parameter.numpy(), random)))
        parameter.copy_(parameter.float())
    norms = [each for each in module.modules() if isinstance(each, NORMS)]
    momenta = [each.momentum for each in norms]
    for each in norms:
        each.reset_running_stats()
        each.momentum = 1.0  # the statistics of this batch alone
    module.train()
    module(inputs)
    module.eval()
    for each, momentum in zip(norms, momenta, strict=True):
        each.momentum = momentum
    for name, values in module.state_dict().items():
        if "running_" in name:
            values.copy_(values.float())


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


if __name__ == "__main__":
    common.answer(main)
