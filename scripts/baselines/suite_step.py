"""The suite's own step, controlled like the hand-written scripts (see common.py)."""

import sys
from pathlib import Path

from suite.worker.data import Batches, feed
from suite.worker.frameworks import load
from suite.worker.loop import Stepper
from suite.worker.protocol import Trial, read_weights
from suite.worker.ranks import Alone

trial = Trial.read(Path(sys.argv[1]))
framework = load(trial)
session = framework.Session(trial, read_weights(trial))
batches = feed(trial, session, Batches(trial, framework.LAYOUT))
stepper = Stepper(session, batches, Alone())
for line in sys.stdin:
    print(stepper.block(int(line)), flush=True)
