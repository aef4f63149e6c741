"""Faults for the self-test that only a timed run shows: a closing proof must find each."""

from __future__ import annotations

from suite.runner.selftest.faults import Fault

RUN_FAULTS = (
    Fault(
        name="idle from the fortieth step",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="        return self._train_step(*batch)\n",
        wrong="""\
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls < 40:
            self._last = self._train_step(*batch)
        return self._last
""",
    ),
    Fault(
        name="half of the batch after warm-up",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="self._mean_loss(self._forward(batch[0]), batch[1])\n",
        wrong="""\
(
            self._mean_loss(self._forward(batch[0]), batch[1])
            if self._steps < 40
            else self._mean_loss(self._forward(batch[0][::2]), batch[1][::2])
        )
""",
    ),
    Fault(
        name="gradients that are 1 % too large after warm-up, in bfloat16",
        framework="pytorch",
        file="frameworks/pytorch/session.py",
        right="self._mean_loss(self._forward(batch[0]), batch[1])\n",
        wrong="""\
self._mean_loss(self._forward(batch[0]), batch[1]) * (1 if self._steps < 40 else 1.01)
""",
        precision="bf16_mixed",
    ),
    Fault(
        name="optimizer skipped in every second step",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="        self._trainer.step(self._trial.batch_size)\n",
        wrong="""\
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls % 2 or self._trial.mode != "train":
            self._trainer.step(self._trial.batch_size)
""",
    ),
    Fault(
        name="a repeated batch",
        framework="tensorflow",
        file="data.py",
        right="lambda step: session.put(*batches.at(step)),\n        stack",
        wrong="lambda step: session.put(*batches.at(0)),\n        stack",
    ),
    Fault(
        name="a stale compiled graph, with the weights as constants",
        framework="jax",
        file="frameworks/jax/session.py",
        right="to_differentiate(params, rest, inputs, labels)",
        wrong="""to_differentiate(
            self._params if self._trial.mode == "train" else params, rest, inputs, labels
        )""",
    ),
    Fault(
        name="one batch in all steps of a call",
        framework="jax",
        variant="scan",
        file="frameworks/jax/session.py",
        right="            *carry, loss = self._step(*carry, *batch)\n",
        wrong="            *carry, loss = self._step(*carry, inputs[0], labels[0])\n",
    ),
    Fault(
        name="a device that is not waited for",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="def synchronize(self) -> None:\n        mx.nd.waitall()\n",
        wrong="def synchronize(self) -> None:\n        pass\n",
    ),
)

# In a timed run of a model with dropout.
DROPOUT_FAULTS = (
    Fault(
        name="dropout left out",
        framework="pytorch",
        file="frameworks/pytorch/layers.py",
        right='else nn.Dropout(layer["rate"])',
        wrong="else nn.Identity()",
    ),
)
# The line of `infer` before the timed queries.
RESPONDER = "    responder = Responder(predictor.predict, inputs, trial.batch_size, blocks)\n"
TIMED_INFERENCE_FAULTS = (
    Fault(
        name="inference: the answer of another query in every tenth timed call",
        framework="pytorch",
        file="inference.py",
        right=RESPONDER,
        wrong=RESPONDER
        + """\
    answer, calls, kept = responder._predict, [0], [ready]

    def other(batch):
        calls[0] += 1
        kept.append(answer(batch))
        return kept.pop(0) if calls[0] % 10 == 0 else kept.pop()

    responder._predict = other
""",
    ),
    Fault(
        name="inference: an output cached in the timed queries",
        framework="jax",
        file="inference.py",
        right=RESPONDER,
        wrong=RESPONDER
        + """\
    known, answer = {}, responder._predict
    responder._predict = lambda batch: known.setdefault(batch.shape, answer(batch))
""",
    ),
)
