"""Inference in PyTensor, as one would write it by hand: one compiled function."""

import numpy as np
from common import model, queries
from latency import serve_calls

module = model("pytensor")
given = module.pt.tensor("given", shape=(1, 1, 28, 28), dtype="float32")
run = module.pytensor.function([given], module.logits(given), trust_input=True)

serve_calls(lambda image: np.ascontiguousarray(run(image)), queries())
