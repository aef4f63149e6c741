"""TensorFlow's ranks: MultiWorkerMirroredStrategy, whose collectives add the gradients."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from ...protocol import Trial


def strategy(trial: Trial) -> Any:
    """Meet the other ranks. TensorFlow must not have run an operation before."""
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": list(trial.addresses)},
            "task": {"type": "worker", "index": trial.rank},
        }
    )
    implementation = tf.distribute.experimental.CommunicationImplementation
    on_cpu = trial.device == "cpu"
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.RING if on_cpu else implementation.NCCL
    )
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def mean(gradients: list[Any]) -> list[Any]:
    """The means of the gradients over the ranks, inside `strategy.run`."""
    replicas = tf.distribute.get_replica_context()
    found: list[Any] = replicas.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
    return found
