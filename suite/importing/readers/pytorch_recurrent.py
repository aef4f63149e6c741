"""LSTMs and GRUs of PyTorch as layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import fx, nn

from .common import Layer, Refused, part_of

KINDS: dict[type, str] = {nn.LSTM: "lstm", nn.GRU: "gru"}
# Our roles of a layer's weights: PyTorch's names end in the number of the layer.
ROLES = {"weight_ih": "input_weight", "weight_hh": "hidden_weight"}
BIASES = {"bias_ih": "bias", "bias_hh": "hidden_bias"}
NOTE = "the two biases of an LSTM have one gradient: here they are one"


def recurrent(module: Any, before: Any, after: Any) -> Layer:
    plain = module.batch_first and module.bias and not getattr(module, "proj_size", 0)
    if not plain or len(before) != 2:
        raise Refused("an LSTM or GRU has batch_first, a bias and no projection")
    return {
        "kind": KINDS[type(module)],
        "in_features": module.input_size,
        "hidden": module.hidden_size,
        "sequence": True,  # of only the last state, see recurrent.with_last_states
        "num_layers": module.num_layers,
        "directions": 2 if module.bidirectional else 1,
        "dropout": module.dropout,
    }


def weights(module: Any) -> dict[str, Any]:
    """The parameters by our roles, float64, each after the part of the module that has it.

    recurrent.with_parts has the names of the parts. The parameters of an LSTM have one bias.
    """
    found: dict[str, Any] = {}
    for layer in range(module.num_layers):
        for direction in range(2 if module.bidirectional else 1):
            end = f"_l{layer}" + ("_reverse" if direction else "")
            part = part_of(layer, direction, module.num_layers, module.bidirectional)
            own = _of_part(module, end)
            found |= {f"{part}.{role}" if part else role: each for role, each in own.items()}
    return found


def _of_part(module: Any, end: str) -> dict[str, Any]:
    """The parameters whose names end so, by our roles."""
    values = {
        name: getattr(module, name + end).detach().double().numpy() for name in (*ROLES, *BIASES)
    }
    found = {role: values[name] for name, role in ROLES.items()}
    if isinstance(module, nn.LSTM):
        return {**found, "bias": np.sum([values[name] for name in BIASES], axis=0)}
    return {**found, **{role: values[name] for name, role in BIASES.items()}}


def member(node: fx.Node, before: Any, after: Any) -> Layer | None:
    """An index: a result of an attention or a recurrent layer, or a member of a sequence."""
    index: Any = node.args[1]
    if not before or (before and len(before[0]) == 2 and index == 1):
        raise Refused("the states of a recurrent layer: its outputs x[:, -1] are taken")
    if index == 0 and tuple(before[0]) == tuple(after):
        return None
    if len(before[0]) == 2 and index == (slice(None), 0):
        return {"kind": "first_token"}
    if len(before[0]) == 2 and index in ((slice(None), -1), (slice(None), -1, slice(None))):
        return {"kind": "last_state"}
    raise Refused(f"[{index}]: the first member of a sequence, or the last state, is taken")
