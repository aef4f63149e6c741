"""The suite's own call of inference, controlled like the hand-written scripts (see latency.py)."""

import statistics
import sys
from pathlib import Path

import numpy as np
from latency import serve_calls

from suite.worker.data import Split
from suite.worker.frameworks import load
from suite.worker.protocol import Trial, read_statistics, read_weights

trial = Trial.read(Path(sys.argv[1]))
framework = load(trial)
predictor = framework.Predictor(trial, read_weights(trial), read_statistics(trial))
images = Split(trial, "test", framework.LAYOUT).take(np.arange(trial.query_samples))[0]
serve_calls(predictor.predict, images, getattr(statistics, (sys.argv[2:] or ["median"])[0]))
