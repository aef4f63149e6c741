"""bfloat16 in the two frameworks of the reference: what is rounded, and what is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from suite.manifests import catalog
from suite.manifests.workloads import Sgd, Workload
from suite.protocol import trial_file
from suite.protocol.expansion import expand
from suite.protocol.trial_file import Task
from suite.worker import host
from tests.conftest import made_up, rest_in_verify
from tests.worker.conftest import in_environment

# Attention that rounds to so many bits that nothing changes, and the framework's own.
PYTORCH = """
import torch
from torch.nn import functional
from suite.worker.frameworks.pytorch import rounding

torch.manual_seed(0)
parts = [torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
gradient = torch.randn(2, 3, 5, 4, dtype=torch.float64)
for causal in (False, True):
    for bits, tolerance in ((40, 1e-9), (8, 2e-2)):
        found = rounding.attention(bits, causal=causal)(*parts)
        expected = functional.scaled_dot_product_attention(*parts, is_causal=causal)
        pairs = [(found, expected)]
        pairs += zip(*(torch.autograd.grad(each, parts, gradient) for each in (found, expected)))
        for one, other in pairs:
            error = float((one - other).norm() / other.norm())
            assert error < tolerance and (error > 1e-3) == (bits == 8), (causal, bits, error)
print("compared")
"""
JAX = """
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from jax import nn, numpy as jnp
from suite.worker.frameworks.jax import rounding

rng = np.random.default_rng(0)
parts = [jnp.asarray(rng.normal(size=(2, 5, 3, 4))) for _ in range(3)]
gradient = jnp.asarray(rng.normal(size=(2, 5, 3, 4)))
for causal in (False, True):
    for bits, tolerance in ((24, 1e-6), (8, 2e-2)):
        found, back = jax.vjp(lambda *parts: rounding.attention(bits, causal, *parts), *parts)
        expected, back_exactly = jax.vjp(
            lambda *parts: nn.dot_product_attention(*parts, is_causal=causal), *parts
        )
        for one, other in [(found, expected), *zip(back(gradient), back_exactly(gradient))]:
            error = float(jnp.linalg.norm(one - other) / jnp.linalg.norm(other))
            assert error < tolerance and (error > 1e-3) == (bits == 8), (causal, bits, error)
print("compared")
"""
# The sums of a step's gradients that XLA would compute in bfloat16.
SUMS = """
import sys
from pathlib import Path
import jax
from jax import numpy as jnp
from suite.worker.data import Batches
from suite.worker.frameworks.jax.session import LAYOUT, Session
from suite.worker.protocol import Trial, read_weights

def equations(jaxpr):
    for each in jaxpr.eqns:
        yield each
        for inner in jax.core.jaxprs_in_params(each.params):
            yield from equations(inner)

trial = Trial.read(Path(sys.argv[1]))
session = Session(trial, read_weights(trial))
batch = Batches(trial, LAYOUT).at(0)
step = jax.make_jaxpr(session._gradients)(session._params, session._rest, *batch)
found = list(equations(step.jaxpr))
of_bfloat16 = [each for each in found if each.outvars[0].aval.dtype == jnp.bfloat16]
assert any(each.primitive.name == "dot_general" for each in of_bfloat16)
for each in of_bfloat16:
    if each.primitive.name in ("reduce_sum", "scatter-add", "reduce_window_sum"):
        print(each.primitive.name, *each.outvars[0].aval.shape)
"""
# How much longer the results in bfloat16 of a layer norm are with a larger scale.
LAYER_NORM = """
from types import SimpleNamespace
import jax
from flax import nnx
from jax import numpy as jnp
from suite.worker.frameworks.jax import layers

trial = SimpleNamespace(mixed=True, dtype="float32", variant="jit", simulated_bits=None)
layer = {"kind": "layer_norm", "features": 64, "epsilon": 1e-6}
norm = layers._lower(layer, trial, nnx.Rngs(0))
values = jax.random.normal(jax.random.key(0), (1000, 64)).astype(jnp.bfloat16)
lengths = []
for scale in (1.0, 1.0019):
    norm.scale[...] = jnp.full(64, scale)
    lengths.append(jnp.linalg.norm(norm(values).astype(jnp.float32)))
print(float(lengths[1] / lengths[0]))
"""


def test_jax_does_not_round_the_scale_of_a_layer_norm(tmp_path: Path) -> None:
    ratio = float(in_environment("jax", LAYER_NORM, folder=tmp_path))
    assert ratio == pytest.approx(1.0019, abs=2e-4)


@pytest.mark.parametrize(("framework", "code"), rest_in_verify(("pytorch", PYTORCH), ("jax", JAX)))
def test_simulated_attention_differs_by_its_rounding_alone(
    framework: str, code: str, tmp_path: Path
) -> None:
    assert in_environment(framework, code, folder=tmp_path) == "compared\n"


@pytest.mark.parametrize(
    ("model", "dataset"),
    [
        ("every_layer", "mnist"),
        ("every_sequence", "mnist"),
        ("gpt_tiny", "moby_dick"),
        pytest.param("vit_tiny_cifar10", "cifar10", marks=pytest.mark.verify),
    ],
)
def test_jax_sums_no_gradient_in_bfloat16(model: str, dataset: str, tmp_path: Path) -> None:
    workload = Workload(
        model=model,
        dataset=dataset,
        batch_size=4,
        epochs=0,
        precision="bf16_mixed",
        optimizer=Sgd(name="sgd", learning_rate=0.1),
    )
    known = catalog.frameworks()
    plan = expand(catalog.suite("quick"), known, catalog.tracks(), only=["jax:jit"])
    trial = replace(plan.trials[0], workload=workload)
    inputs = made_up(workload, tmp_path)
    task = Task(trial=trial, inputs=inputs, mode="parity")
    trial_file.write(tmp_path / "trial", task, cpus=host.cpus())
    assert in_environment("jax", SUMS, str(tmp_path / "trial"), folder=tmp_path) == ""
