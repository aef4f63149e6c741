"""Faults for the self-test: each is planted in a copy of the worker; a certificate must find it.

Those that only a timed run shows are in timed_faults.py.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from suite.errors import DlsuiteError
from suite.manifests.workloads import BatchNorm, Precision
from suite.paths import WORKER


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A replacement of `right` by `wrong` in `file` of the worker, tested with `framework`."""

    name: str
    framework: str
    variant: str | None = None  # None: the first of the plan
    file: str
    right: str
    wrong: str
    precision: Precision = "float32"  # of the products, in which it is tested
    device: str = "cpu"  # the device set on which it is tested
    batch_norm: BatchNorm = "per_rank"  # of several ranks
    places: int = 1  # in the file where `right` is replaced

    def plant(self, folder: Path) -> Path:
        """Make the new `folder`, a copy of the worker with this fault; return it."""
        shutil.copytree(WORKER, folder, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.right) != self.places:
            raise DlsuiteError(
                f"the self-test's fault {self.name!r} no longer fits {self.file}",
                hint="update it in suite/runner/selftest/",
            )
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")
        return folder


FROZEN_BIAS = Fault(
    name="a frozen bias",
    framework="pytorch",
    file="frameworks/pytorch/session.py",
    right="_optimizer(trial, self._parameters)",
    wrong="_optimizer(trial, dict(list(self._parameters.items())[:-1]))",
)

FAULTS = (
    Fault(
        name="a learning rate that is 0.1 % too large",
        framework="jax",
        file="frameworks/jax/session.py",
        right='name, rate = options["name"], options["learning_rate"]',
        wrong='name, rate = options["name"], 1.001 * options["learning_rate"]',
    ),
    Fault(
        name="wrong batch-norm epsilon",
        framework="tensorflow",
        file="frameworks/tensorflow/layers.py",
        right='epsilon=layer["epsilon"],\n            is_training',
        wrong="epsilon=1e-3,\n            is_training",
    ),
    Fault(
        name="a step that is not divided by the batch size",
        framework="cntk",
        file="frameworks/cntk/python36/optimizers.py",
        right="gradient / self._size",
        wrong="gradient",
    ),
    Fault(
        name="the unbiased variance of a batch norm",
        framework="cntk",
        file="frameworks/cntk/python36/layers.py",
        right="np.float32(values / (values - 1))",
        wrong="np.float32(1)",
    ),
    Fault(
        name="a correction of the bias with the wrong constant",
        framework="cntk",
        file="frameworks/cntk/python36/optimizers.py",
        right="zip((_zeros((1,)), _zeros((1,))), betas)",
        wrong="zip((_zeros((1,)), _zeros((1,))), (betas[0], 0.99))",
    ),
    Fault(
        name="wrong batch-norm momentum convention",
        framework="mxnet",
        file="frameworks/mxnet/layers.py",
        right='"momentum": 1 - layer["momentum"]',
        wrong='"momentum": layer["momentum"]',
    ),
    Fault(
        name="asymmetric padding",
        framework="tensorflow",
        file="frameworks/tensorflow/layers.py",
        right='return "SAME" if pairs == same_paddings(layer) else _pairs(layer)',
        wrong='return "SAME"',
    ),
    Fault(
        name="flatten order",
        framework="tensorflow",
        file="layouts.py",
        right="elif shape is not None:",
        wrong="elif False:",
        places=2,
    ),
    Fault(
        name="swapped data order",
        framework="mxnet",
        file="data.py",
        right="epoch, position = divmod(step, self.steps_per_epoch)",
        wrong="epoch, position = divmod({3: 4, 4: 3}.get(step, step), self.steps_per_epoch)",
    ),
    Fault(
        name="shifted labels",
        framework="mxnet",
        file="data.py",
        right="labels = self.labels.take(chosen, axis=0, mode=mode)",
        wrong="labels = np.roll(self.labels, 1, 0).take(chosen, axis=0, mode=mode)",
    ),
    Fault(
        name="dropout left on",
        framework="pytorch",
        file="protocol.py",
        right='if self.mode == "parity" and self.scenario is None:',
        wrong="if False:",
    ),
    Fault(
        name="loss summed instead of averaged",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="LOSSES[trial.loss](**_loss_options(trial))",
        wrong='LOSSES[trial.loss](reduction="sum")',
    ),
    Fault(
        name="wrong average-pool divisor",
        framework="pytorch",
        file="frameworks/pytorch/layers.py",
        right='count_include_pad=layer["count_padding"]',
        wrong="count_include_pad=False",
    ),
    Fault(
        name="Adam epsilon misplaced",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right='self._epsilon * tf.sqrt(1 - self._powers["beta2"])',
        wrong="self._epsilon",
    ),
    FROZEN_BIAS,
    Fault(
        name="bfloat16 left on where float32 is claimed",
        framework="pytorch",
        file="frameworks/pytorch/device.py",
        right="        torch.set_num_threads(trial.threads)\n",
        wrong="        torch.set_num_threads(trial.threads)\n"
        '    torch.autocast("cpu", torch.bfloat16).__enter__()\n',
    ),
)

# Of targets that are numbers.
NUMBER_FAULTS = (
    Fault(
        name="half the squared error",
        framework="jax",
        file="frameworks/jax/session.py",
        right="optax.squared_error",
        wrong="optax.l2_loss",
    ),
    Fault(
        name="the squared error summed over the outputs",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="losses = F.mean(losses, axis=1)",
        wrong="losses = F.sum(losses, axis=1)",
    ),
)

# Of a recipe with Nesterov momentum, clipped gradients, a schedule and smoothed labels.
RECIPE_FAULTS = (
    Fault(
        name="momentum without Nesterov's step",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right='{"use_nesterov": True} if options.get("nesterov") else {}',
        wrong="{}",
    ),
    Fault(
        name="labels smoothed over the other classes only",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="self._others = smoothing * (classes - 1) / classes",
        wrong="self._others = smoothing",
    ),
    Fault(
        name="each gradient clipped by its own norm",
        framework="jax",
        file="frameworks/jax/session.py",
        right="optax.clip_by_global_norm(largest)",
        wrong="optax.clip_by_block_rms(largest)",
    ),
    Fault(
        name="a schedule that is one step ahead",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="tf.cast(self.steps - 1, ",
        wrong="tf.cast(self.steps, ",
    ),
    Fault(
        name="a velocity with the learning rates of its steps",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="        if scheduler:\n",
        wrong="        if False:\n",
    ),
)

# Of a cross-entropy with weights of classes.
WEIGHT_FAULTS = (
    Fault(
        name="weighted losses divided by the number of labels",
        framework="jax",
        file="frameworks/jax/session.py",
        right="jnp.average(losses, weights=weights)",
        wrong="(losses * weights).mean()",
    ),
    Fault(
        name="weights of classes that are left out",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="self._weighted(losses, labels, weights) if weights else losses",
        wrong="losses",
    ),
)

# Of batches that are divided into micro-batches, and of averages of the weights.
ACCUMULATE_FAULTS = (
    Fault(
        name="gradients summed instead of averaged over micro-batches",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="[each / parts for each in totals]",
        wrong="totals",
    ),
    Fault(
        name="the last micro-batch left out",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="range(0, size * parts, size)",
        wrong="range(0, size * (parts - 1), size)",
    ),
    Fault(
        name="an average of the weights before each step",
        framework="jax",
        file="frameworks/jax/session.py",
        right="(new - old), state.average, after)",
        wrong="(new - old), state.average, params)",
    ),
    Fault(
        name="an evaluation without the averages of the weights",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="with self._averaged(), torch.inference_mode():",
        wrong="with torch.inference_mode():",
    ),
)

# Of LAMB.
LAMB_FAULTS = (
    Fault(
        name="LAMB without its trust ratios",
        framework="jax",
        file="frameworks/jax/session.py",
        right="optax.masked(optax.scale_by_trust_ratio(), decaying)",
        wrong="optax.identity()",
    ),
    Fault(
        name="trust ratios over the gradients instead of the updates",
        framework="mxnet",
        file="frameworks/mxnet/lamb.py",
        right="_norm(weight), _norm(step)",
        wrong="_norm(weight), _norm(grad * self.rescale_grad)",
    ),
)

# In a model of text, whose biases and norms do not decay.
TEXT_FAULTS = (
    Fault(
        name="biases and norms that decay",
        framework="jax",
        file="frameworks/jax/session.py",
        right='"mask": decaying',
        wrong='"mask": None',
    ),
    Fault(
        name="attention to the future",
        framework="pytorch",
        file="frameworks/pytorch/attention.py",
        right="is_causal=self.causal",
        wrong="is_causal=False",
    ),
    Fault(
        name="a head that does not share its embedding's gradient",
        framework="jax",
        file="frameworks/jax/layers.py",
        right='getattr(model, PREFIX + layer["embedding"]).attend(values)',
        wrong="""\
jnp.matmul(
                values,
                lax.stop_gradient(getattr(model, PREFIX + layer["embedding"]).embedding[...].T),
            )""",
    ),
    Fault(
        name="AdamW that adds its decay to the gradient",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="variable.assign(variable * kept)",
        wrong="gradient += variable * (1 - kept) / numbers['lr']",
    ),
)

BFLOAT16_FAULTS = (
    replace(FROZEN_BIAS, name="a frozen bias, in bfloat16", precision="bf16_mixed"),
    Fault(
        name="a learning rate that is 1 % too large, in bfloat16",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right='name, rate = options["name"], options["learning_rate"]',
        wrong='name, rate = options["name"], 1.01 * options["learning_rate"]',
        precision="bf16_mixed",
    ),
    Fault(
        name="float32 as bfloat16, in the timed step alone",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="self._mean_loss(self._forward(batch[0]), batch[1])",
        wrong="self._mean_loss(self._run(batch[0]), batch[1])",
        precision="bf16_mixed",
    ),
    Fault(
        name="float16 as bfloat16",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="torch.autocast(self._device.type, torch.bfloat16)",
        wrong="torch.autocast(self._device.type, torch.float16)",
        precision="bf16_mixed",
    ),
    Fault(
        name="sums of a batch norm in bfloat16",
        framework="pytorch",
        file="frameworks/pytorch/layers.py",
        right="            return super().forward(images)\n",
        wrong="""\
            with torch.no_grad():
                total = torch.zeros(images.shape[1], dtype=torch.bfloat16)
                for values in images.bfloat16().permute(0, 2, 3, 1).reshape(-1, len(total)):
                    total = total + values
                mean = total.float() / (images.numel() // len(total))
                self.running_mean += self.momentum * (mean - images.float().mean((0, 2, 3)))
            return super().forward(images)
""",
        precision="bf16_mixed",
    ),
    Fault(
        name="softmax and loss in bfloat16",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="return logits.to(torch.get_default_dtype())",
        wrong="return logits",
        precision="bf16_mixed",
    ),
    Fault(
        name="weights kept in bfloat16",
        framework="jax",
        file="frameworks/jax/session.py",
        right="return optax.apply_updates(params, updates), rest, state, loss",
        wrong="""\
params = jax.tree.map(
            lambda each: each.astype("bfloat16").astype(each.dtype),
            optax.apply_updates(params, updates),
        )
        return params, rest, state, loss""",
        precision="bf16_mixed",
    ),
    Fault(
        name="a scaled loss whose gradients are not unscaled",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="tape.gradient(loss, list(self._variables.values()))\n",
        wrong="tape.gradient(loss, list(self._variables.values()), [tf.constant(128.0)])\n",
        precision="bf16_mixed",
    ),
    Fault(
        name="float32 as bfloat16",
        framework="jax",
        file="frameworks/jax/layers.py",
        right='"bfloat16" if trial.mixed else trial.dtype',
        wrong="trial.dtype",
        precision="bf16_mixed",
    ),
)

TWO_RANKS = "cpu:2"
RANK_FAULTS = (
    Fault(
        name="gradients summed instead of averaged over the ranks",
        framework="tensorflow",
        file="frameworks/tensorflow/distributed.py",
        right="tf.distribute.ReduceOp.MEAN",
        wrong="tf.distribute.ReduceOp.SUM",
        device=TWO_RANKS,
    ),
    Fault(
        name="gradients of each rank alone",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="distributed.data_parallel(self._model, self._device)",
        wrong="self._model",
        device=TWO_RANKS,
    ),
    Fault(
        name="one rank on the data of another",
        framework="pytorch",
        file="data.py",
        right="first = trial.rank * trial.rank_batch_size",
        wrong="first = 0",
        device=TWO_RANKS,
    ),
    Fault(
        name="unequal slices of the batch",
        framework="pytorch",
        file="data.py",
        right="chosen[:, :, first : first + trial.rank_batch_size]",
        wrong="chosen[:, :, first + trial.rank : first + trial.rank_batch_size + 1]",
        device=TWO_RANKS,
    ),
    Fault(
        name="the update of one rank skipped",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="        self._trainer.step(self._trial.batch_size)\n",
        wrong="""\
        self._trainer.allreduce_grads()
        if self._trial.rank == 0:
            self._trainer.update(self._trial.batch_size)
""",
        device=TWO_RANKS,
    ),
    Fault(
        name="statistics of batch norm over all ranks",
        framework="jax",
        file="frameworks/jax/layers.py",
        right="            mean = values.mean(batch, keepdims=sliced)\n",
        wrong="""\
            mean = values.mean(batch, keepdims=sliced)
            if jax.process_count() > 1:
                mean = lax.pmean(mean, "ranks")
""",
        device=TWO_RANKS,
    ),
    Fault(
        name="batch norm of each rank alone under the name synchronized",
        framework="pytorch",
        file="frameworks/pytorch/layers.py",
        right="mean, square = mean_over_ranks(moments)",
        wrong="mean, square = moments",
        device=TWO_RANKS,
        batch_norm="synchronized",
    ),
    Fault(
        name="no gradient through the synchronized statistics",
        framework="jax",
        file="frameworks/jax/layers.py",
        right="lax.pmean((mean, square), AXIS)",
        wrong="lax.stop_gradient(lax.pmean((mean, square), AXIS))",
        device=TWO_RANKS,
        batch_norm="synchronized",
    ),
)

INFERENCE_FAULTS = (
    Fault(
        name="inference: batch norm with the statistics of the batch",
        framework="tensorflow",
        file="frameworks/tensorflow/inference.py",
        right="(inputs, Pass(training=False))",
        wrong="(inputs, Pass(training=True))",
    ),
    Fault(
        name="inference: dropout left on",
        framework="pytorch",
        file="frameworks/pytorch/inference.py",
        right="        _fold(model)\n",
        wrong="""\
        _fold(model)
        for each in model.modules():
            if isinstance(each, nn.Dropout):
                each.train()
""",
    ),
    Fault(
        name="inference: a batch filled at its beginning, and cut at its end",
        framework="pytorch",
        file="responder.py",
        right="chosen += chosen[-1:] * (self._batch_size - len(chosen))",
        wrong="chosen = chosen[-1:] * (self._batch_size - len(chosen)) + chosen",
    ),
    Fault(
        name="inference: the answers of two samples exchanged",
        framework="tensorflow",
        file="responder.py",
        right="for number, sample in enumerate(samples)\n",
        wrong="for number, sample in enumerate([*samples[1::-1], *samples[2:]])\n",
    ),
)
