"""LeNet in CNTK, as one would write it by hand, with batches as arrays.

CNTK's Python is 3.6, which cannot read common.py: compare.py starts this script with the worker's
Python, which becomes CNTK's.
"""

import os
import sys
import time

if sys.version_info >= (3, 7):  # noqa: UP036
    from pathlib import Path

    from suite.worker.child import PYTHON
    from suite.worker.frameworks.cntk.process import libraries

    python = str(Path(sys.prefix) / PYTHON)
    os.execve(python, [python, *sys.argv], {**os.environ, **libraries()})

import cntk
import numpy as np

FOLDER, BATCH, LEARNING_RATE = sys.argv[1], int(sys.argv[3]), float(sys.argv[4])
cntk.device.try_set_default_device(cntk.device.cpu())
cntk.cntk_py.set_max_num_cputhreads(int(os.environ["OMP_NUM_THREADS"]))

images = np.load(FOLDER + "/train_inputs.npy").astype(np.float32)
images = (images - images.mean()) / images.std()
labels = np.eye(10, dtype=np.float32)[np.load(FOLDER + "/train_labels.npy")]
order = np.random.default_rng(0).permutation(len(labels))
batches = order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)

inputs, targets = cntk.input_variable((1, 28, 28)), cntk.input_variable(10)
with cntk.layers.default_options(init=cntk.initializer.he_normal()):
    logits = cntk.layers.Sequential(
        [
            cntk.layers.Convolution2D((5, 5), 20, pad=False),
            cntk.layers.MaxPooling((2, 2), (2, 2)),
            cntk.layers.Convolution2D((5, 5), 50, pad=False),
            cntk.layers.MaxPooling((2, 2), (2, 2)),
            cntk.layers.Dense(500, activation=cntk.relu),
            cntk.layers.Dense(10),
        ]
    )(inputs)
loss = cntk.cross_entropy_with_softmax(logits, targets)
rate = cntk.learning_parameter_schedule(LEARNING_RATE, minibatch_size=BATCH)
trainer = cntk.Trainer(logits, loss, [cntk.sgd(logits.parameters, rate, minibatch_size=BATCH)])

done = 0
for line in sys.stdin:
    started = time.perf_counter()
    for number in range(done, done + int(line)):
        samples = batches[number % len(batches)]
        trainer.train_minibatch({inputs: images[samples], targets: labels[samples]})
    done += int(line)
    print(time.perf_counter() - started, flush=True)
