"""Models of the package transformers: GPT-2, BERT with its head for masked words, and Llama.

They are not traced, because their code depends on values. The layers are those of the published
architecture with the sizes of the module's configuration; the comparison of the logits shows
whether they are the module's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from . import common
from .common import Layer, Refused

GELU = {"gelu": False, "gelu_new": True, "gelu_pytorch_tanh": True}  # whether it is approximate


class Language:
    """A language model: tokens to one score for each word at each position."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        if len(shape) != 1:
            raise Refused(f"--input {shape}: a text has a length, for example 128")
        self._module, self._length = module, shape[0]
        self.input_shape = shape
        self._config: Any = module.config
        self.vocabulary = int(self._config.vocab_size)
        # Llama's norms and rotations are in float32 whatever the type of its weights.
        self.in_float32 = type(module).__name__ == "LlamaForCausalLM"
        self.ending = None

    def inputs(self, request: dict[str, Any]) -> Any:
        """Random tokens (samples, length)."""
        random = np.random.default_rng(request["seed"])
        size = request["samples"], self._length
        return random.integers(0, self.vocabulary, size, dtype=np.int32)

    def run(self, inputs: Any) -> torch.Tensor:
        """The logits (samples, length, vocabulary)."""
        logits: torch.Tensor = self._module(input_ids=torch.from_numpy(inputs).long()).logits
        return logits

    def change(self, inputs: Any, seed: int) -> None:
        """Add noise to the parameters; all values are rounded to float32."""
        random = np.random.default_rng(seed)
        for parameter in self._module.parameters():
            parameter.add_(torch.from_numpy(common.noise(parameter.numpy(), random)))
            parameter.copy_(parameter.float())

    def convert(self) -> None:
        """Make the nodes and the weights anew."""
        self.nodes: list[Layer] = [{"name": "input", "inputs": [], "layer": None}]
        self.refusals: list[Layer] = []
        self.notes: list[str] = []
        self.weights: dict[str, Any] = {}
        self._values = self._module.state_dict()
        KNOWN[type(self._module).__name__](self)

    def _value(self, name: str) -> Any:
        return self._values[name].detach().double().numpy()

    def _add(self, name: str, inputs: list[str], layer: Layer, **weights: Any) -> str:
        self.nodes.append({"name": name, "inputs": inputs, "layer": layer})
        self.weights |= {f"{name}.{role}": values for role, values in weights.items()}
        return name

    def _affine(self, name: str, before: str, path: str, *, turned: bool = False) -> str:
        """A dense layer; GPT-2's weights are (in, out), which is `turned`."""
        weight = self._value(f"{path}.weight")
        weight = weight.T if turned else weight
        outputs, inputs = weight.shape
        layer = {"kind": "dense", "in_features": inputs, "out_features": outputs}
        if f"{path}.bias" not in self._values:
            return self._add(name, [before], {**layer, "bias": False}, weight=weight)
        bias = self._value(f"{path}.bias")
        return self._add(name, [before], {**layer, "bias": True}, weight=weight, bias=bias)

    def _norm(self, name: str, before: str, path: str, epsilon: float) -> str:
        weight = self._value(f"{path}.weight")
        sizes = {"features": len(weight), "epsilon": epsilon}
        if f"{path}.bias" not in self._values:
            return self._add(name, [before], {"kind": "rms_norm", **sizes}, weight=weight)
        bias = self._value(f"{path}.bias")
        layer = {"kind": "layer_norm", **sizes, "images": False}
        return self._add(name, [before], layer, weight=weight, bias=bias)

    def _embedding(self, path: str) -> str:
        weight = self._value(f"{path}.weight")
        sizes = {"vocabulary": weight.shape[0], "features": weight.shape[1]}
        return self._add("tokens", ["input"], {"kind": "embedding", **sizes}, weight=weight)

    def _positions(self, name: str, before: str, table: Any) -> str:
        sizes = {"length": table.shape[0], "features": table.shape[1]}
        return self._add(name, [before], {"kind": "position_embedding", **sizes}, weight=table)

    def _dropout(self, name: str, before: str, rate: float) -> str:
        if not rate:
            return before
        return self._add(name, [before], {"kind": "dropout", "rate": rate, "whole": False})

    def _activation(self, name: str, before: str, kind: str) -> str:
        if kind in GELU:
            return self._add(name, [before], {"kind": "gelu", "approximate": GELU[kind]})
        if kind not in ("relu", "silu"):
            raise Refused(f"activation {kind!r}: no layer is it")
        return self._add(name, [before], {"kind": kind})

    def _sum(self, name: str, first: str, second: str) -> str:
        return self._add(name, [first, second], {"kind": "add"})

    def _head(self, before: str, path: str, embedding: str) -> None:
        """The scores of all words, by the embedding's weight or by one of their own."""
        weight = self._value(f"{path}.weight")
        if not np.array_equal(weight, self._value(f"{embedding}.weight")):
            self._affine("head", before, path)
            return
        sizes = {"vocabulary": weight.shape[0], "features": weight.shape[1]}
        layer = {"kind": "tied_head", "embedding": "tokens", **sizes}
        if f"{path}.bias" in self._values:
            bias = self._value(f"{path}.bias")
            self._add("head", [before], {**layer, "bias": True}, bias=bias)
        else:
            self._add("head", [before], {**layer, "bias": False})

    def _without_dropout_of_shares(self, rate: float) -> None:
        if rate:
            self.notes.append(f"the dropout of {rate:g} on the shares of attention is left out")

    def gpt2(self) -> None:
        config = self._config
        if config.scale_attn_by_inverse_layer_idx or not config.scale_attn_weights:
            raise Refused("scores are divided by the root of the size of a head only")
        self._without_dropout_of_shares(config.attn_pdrop)
        value = self._embedding("transformer.wte")
        table = self._value("transformer.wpe.weight")[: self._length]
        value = self._positions("positions", value, table)
        value = self._dropout("dropout", value, config.embd_pdrop)
        sizes = {"features": config.n_embd, "heads": config.n_head, "causal": True, "bias": True}
        for number in range(config.n_layer):
            path, name = f"transformer.h.{number}", f"block{number}"
            inner = self._norm(f"{name}_norm1", value, f"{path}.ln_1", config.layer_norm_epsilon)
            inner = self._add(
                f"{name}_attention",
                [inner],
                {"kind": "self_attention", **sizes},
                in_weight=self._value(f"{path}.attn.c_attn.weight").T,
                in_bias=self._value(f"{path}.attn.c_attn.bias"),
                out_weight=self._value(f"{path}.attn.c_proj.weight").T,
                out_bias=self._value(f"{path}.attn.c_proj.bias"),
            )
            inner = self._dropout(f"{name}_dropout1", inner, config.resid_pdrop)
            value = self._sum(f"{name}_sum1", value, inner)
            inner = self._norm(f"{name}_norm2", value, f"{path}.ln_2", config.layer_norm_epsilon)
            inner = self._affine(f"{name}_up", inner, f"{path}.mlp.c_fc", turned=True)
            inner = self._activation(f"{name}_gelu", inner, config.activation_function)
            inner = self._affine(f"{name}_down", inner, f"{path}.mlp.c_proj", turned=True)
            inner = self._dropout(f"{name}_dropout2", inner, config.resid_pdrop)
            value = self._sum(f"{name}_sum2", value, inner)
        value = self._norm("norm", value, "transformer.ln_f", config.layer_norm_epsilon)
        self._head(value, "lm_head", "transformer.wte")

    def bert(self) -> None:
        config, path = self._config, "bert.embeddings"
        if getattr(config, "position_embedding_type", "absolute") != "absolute":
            raise Refused("positions are learned, one vector for each")
        self._without_dropout_of_shares(config.attention_probs_dropout_prob)
        epsilon, rate = config.layer_norm_eps, config.hidden_dropout_prob
        value = self._embedding(f"{path}.word_embeddings")
        table = self._value(f"{path}.position_embeddings.weight")[: self._length]
        value = self._positions("positions", value, table)
        kinds = self._value(f"{path}.token_type_embeddings.weight")[:1]
        value = self._positions("segment", value, kinds)
        self.notes.append("all tokens are of the first segment, and none is padding")
        value = self._norm("norm", value, f"{path}.LayerNorm", epsilon)
        value = self._dropout("dropout", value, rate)
        for number in range(config.num_hidden_layers):
            value = self._of_bert(number, value, epsilon, rate)
        value = self._affine("transform", value, "cls.predictions.transform.dense")
        value = self._activation("transform_gelu", value, config.hidden_act)
        norm = "cls.predictions.transform.LayerNorm"
        value = self._norm("transform_norm", value, norm, epsilon)
        self._head(value, "cls.predictions.decoder", f"{path}.word_embeddings")

    def _of_bert(self, number: int, value: str, epsilon: float, rate: float) -> str:
        config, name = self._config, f"block{number}"
        path = f"bert.encoder.layer.{number}"
        parts = [f"{path}.attention.self.{part}" for part in ("query", "key", "value")]
        inner = self._add(
            f"{name}_attention",
            [value],
            {
                "kind": "self_attention",
                "features": config.hidden_size,
                "heads": config.num_attention_heads,
                "causal": False,
                "bias": True,
            },
            in_weight=np.concatenate([self._value(f"{part}.weight") for part in parts]),
            in_bias=np.concatenate([self._value(f"{part}.bias") for part in parts]),
            out_weight=self._value(f"{path}.attention.output.dense.weight"),
            out_bias=self._value(f"{path}.attention.output.dense.bias"),
        )
        inner = self._dropout(f"{name}_dropout1", inner, rate)
        value = self._sum(f"{name}_sum1", value, inner)
        value = self._norm(f"{name}_norm1", value, f"{path}.attention.output.LayerNorm", epsilon)
        inner = self._affine(f"{name}_up", value, f"{path}.intermediate.dense")
        inner = self._activation(f"{name}_gelu", inner, config.hidden_act)
        inner = self._affine(f"{name}_down", inner, f"{path}.output.dense")
        inner = self._dropout(f"{name}_dropout2", inner, rate)
        value = self._sum(f"{name}_sum2", value, inner)
        return self._norm(f"{name}_norm2", value, f"{path}.output.LayerNorm", epsilon)

    def llama(self) -> None:
        config = self._config
        rotary = getattr(config, "rope_parameters", None) or {}
        scaling = getattr(config, "rope_scaling", None) or rotary
        heads, features = config.num_attention_heads, config.hidden_size
        if scaling.get("rope_type", scaling.get("type", "default")) != "default":
            raise Refused(f"rope_scaling {scaling}: angles are not scaled")
        if getattr(config, "head_dim", None) not in (None, features // heads):
            raise Refused(f"head_dim {config.head_dim}: it is {features // heads}")
        if config.attention_bias or config.mlp_bias:
            raise Refused("its dense layers have no biases")
        self._without_dropout_of_shares(config.attention_dropout)
        attention = {
            "kind": "self_attention",
            "features": features,
            "heads": heads,
            "causal": True,
            "bias": False,
            "kv_heads": config.num_key_value_heads,
            "rotary_theta": float(rotary.get("rope_theta") or config.rope_theta),
            "interleaved": False,
        }
        value = self._embedding("model.embed_tokens")
        for number in range(config.num_hidden_layers):
            path, name = f"model.layers.{number}", f"block{number}"
            epsilon = config.rms_norm_eps
            inner = self._norm(f"{name}_norm1", value, f"{path}.input_layernorm", epsilon)
            parts = [f"{path}.self_attn.{part}_proj.weight" for part in "qkv"]
            inner = self._add(
                f"{name}_attention",
                [inner],
                attention,
                in_weight=np.concatenate([self._value(part) for part in parts]),
                out_weight=self._value(f"{path}.self_attn.o_proj.weight"),
            )
            value = self._sum(f"{name}_sum1", value, inner)
            inner = self._norm(f"{name}_norm2", value, f"{path}.post_attention_layernorm", epsilon)
            gate = self._affine(f"{name}_gate", inner, f"{path}.mlp.gate_proj")
            gate = self._activation(f"{name}_silu", gate, config.hidden_act)
            up = self._affine(f"{name}_up", inner, f"{path}.mlp.up_proj")
            inner = self._add(f"{name}_gated", [gate, up], {"kind": "multiply"})
            inner = self._affine(f"{name}_down", inner, f"{path}.mlp.down_proj")
            value = self._sum(f"{name}_sum2", value, inner)
        value = self._norm("norm", value, "model.norm", config.rms_norm_eps)
        self._head(value, "lm_head", "model.embed_tokens")


KNOWN: dict[str, Callable[[Language], None]] = {
    "GPT2LMHeadModel": Language.gpt2,
    "BertForMaskedLM": Language.bert,
    "LlamaForCausalLM": Language.llama,
}


def is_known(module: nn.Module) -> bool:
    """Whether the module is a language model of transformers that has layers here."""
    return type(module).__module__.startswith("transformers.") and type(module).__name__ in KNOWN


def must_be_known(module: nn.Module) -> None:
    """Raise Refused for any other model of transformers: its code cannot be traced."""
    if type(module).__module__.startswith("transformers."):
        raise Refused(f"{type(module).__name__}: of transformers, {', '.join(KNOWN)} are taken")
