"""Inference in PyTensor, as one would write it by hand."""

from common import model, queries
from latency import serve_calls

lenet = model("pytensor")  # sets PyTensor's flags, which it reads when it is imported

import pytensor  # noqa: E402

predict = pytensor.function([lenet.images], lenet.logits, trust_input=True)
serve_calls(predict, queries())
