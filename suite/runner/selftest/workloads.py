"""The workloads in which the faults of the self-test are tested."""

from __future__ import annotations

from suite.manifests.workloads import Adam, AdamW, Lamb, Measure, Momentum, Schedule, Sgd, Workload
from suite.runner.selftest.faults import (
    ACCUMULATE_FAULTS,
    INFERENCE_FAULTS,
    LAMB_FAULTS,
    NUMBER_FAULTS,
    RECIPE_FAULTS,
    TEXT_FAULTS,
    WEIGHT_FAULTS,
    Fault,
)
from suite.runner.selftest.layer_faults import (
    ATTENTION_FAULTS,
    DECODER_FAULTS,
    PADDED_FAULTS,
    RESPONSE_FAULTS,
)
from suite.runner.selftest.timed_faults import DROPOUT_FAULTS, TIMED_INFERENCE_FAULTS

WORKLOAD = Workload(
    model="every_layer",
    dataset="synthetic",
    batch_size=8,
    # So large that its position in the formula matters for gradients of common size.
    optimizer=Adam(name="adam", learning_rate=0.001, epsilon=1e-4),
)

TEXT_WORKLOAD = Workload(
    model="gpt_tiny",
    dataset="synthetic",
    batch_size=8,
    optimizer=AdamW(name="adamw", learning_rate=0.001, weight_decay=0.5, exempt_vectors=True),
)

NUMBER_WORKLOAD = Workload(
    model="db_mlp",
    dataset="synthetic",
    loss="mean_squared_error",
    batch_size=8,
    optimizer=Sgd(name="sgd", learning_rate=0.01),
)

RECIPE_WORKLOAD = Workload(
    model="kent_small",
    dataset="synthetic",
    label_smoothing=0.1,
    batch_size=8,
    optimizer=Momentum(
        name="momentum",
        learning_rate=0.1,
        nesterov=True,
        clip_norm=0.5,
        schedule=Schedule(shape="cosine", warmup_steps=2, total_steps=12),
    ),
)
WEIGHT_WORKLOAD = NUMBER_WORKLOAD.model_copy(
    update={"model": "kent_small", "loss": "cross_entropy", "class_weights": (1.0, 2.0) * 5}
)
LAMB_WORKLOAD = WEIGHT_WORKLOAD.model_copy(
    update={
        "class_weights": None,
        "optimizer": Lamb(name="lamb", learning_rate=0.01, weight_decay=0.5, exempt_vectors=True),
    }
)
ACCUMULATE_WORKLOAD = WORKLOAD.model_copy(
    update={"accumulate": 2, "optimizer": Sgd(name="sgd", learning_rate=0.001, ema_decay=0.8)}
)
DECODER_WORKLOAD = NUMBER_WORKLOAD.model_copy(
    update={"model": "every_decoder", "loss": "cross_entropy"}
)
RESPONSE_WORKLOAD = DECODER_WORKLOAD.model_copy(update={"model": "every_response"})
ATTENTION_WORKLOAD = DECODER_WORKLOAD.model_copy(
    update={"model": "every_attention", "optimizer": Sgd(name="sgd", learning_rate=0.001)}
)
PADDED_WORKLOAD = DECODER_WORKLOAD.model_copy(update={"model": "every_padded"})

# For timed runs: with short blocks, a run ends soon and has some hundred steps.
RUN_WORKLOAD = Workload(
    model="lenet",
    dataset="synthetic",
    batch_size=64,
    optimizer=Sgd(name="sgd", learning_rate=0.01),
    epochs=8,  # of eight steps: even a busy machine does the sixty that the faults need
)
DROPOUT_WORKLOAD = WORKLOAD.model_copy(update={"epochs": 8})
INFERENCE_WORKLOAD = Workload(
    model="every_layer",
    dataset="synthetic",
    mode="infer",
    scenario="offline",
    batch_size=8,
    query_samples=50,  # not a multiple of the batch size: the last batch is filled
)
# Workloads that differ only in these have the same inputs.
SAME_INPUTS = {"precision": "float32", "batch_norm": "per_rank"}
TIMED_WORKLOADS = (RUN_WORKLOAD, DROPOUT_WORKLOAD, INFERENCE_WORKLOAD)
LAYER_WORKLOADS = (DECODER_WORKLOAD, RESPONSE_WORKLOAD, ATTENTION_WORKLOAD, PADDED_WORKLOAD)
RECIPE_WORKLOADS = (RECIPE_WORKLOAD, WEIGHT_WORKLOAD, LAMB_WORKLOAD, ACCUMULATE_WORKLOAD)
OTHER_WORKLOADS = (*RECIPE_WORKLOADS, *LAYER_WORKLOADS)
WORKLOADS = (WORKLOAD, NUMBER_WORKLOAD, TEXT_WORKLOAD, *OTHER_WORKLOADS, *TIMED_WORKLOADS)
RUN_MEASURE = Measure(
    block_s=0.1,
    # On a fast machine more steps learn the few batches by heart: a loss of 0 cannot be compared.
    max_warmup_blocks=5,
    min_measure_s=0.5,
    max_measure_s=1,
    sample_s=0,
    min_query_s=0.2,
    min_queries=1000,
    max_query_s=2,
)


def workload_of(fault: Fault) -> Workload:
    """The workload in which a fault is tested."""
    if fault in TEXT_FAULTS:
        return TEXT_WORKLOAD
    if fault in NUMBER_FAULTS:
        return NUMBER_WORKLOAD
    if fault in RECIPE_FAULTS:
        return RECIPE_WORKLOAD
    if fault in WEIGHT_FAULTS:
        return WEIGHT_WORKLOAD
    if fault in LAMB_FAULTS:
        return LAMB_WORKLOAD
    if fault in ACCUMULATE_FAULTS:
        return ACCUMULATE_WORKLOAD
    if fault in DECODER_FAULTS:
        return DECODER_WORKLOAD
    if fault in RESPONSE_FAULTS:
        return RESPONSE_WORKLOAD
    if fault in ATTENTION_FAULTS:
        return ATTENTION_WORKLOAD
    if fault in PADDED_FAULTS:
        return PADDED_WORKLOAD
    if fault in (*INFERENCE_FAULTS, *TIMED_INFERENCE_FAULTS):
        return INFERENCE_WORKLOAD
    return DROPOUT_WORKLOAD if fault in DROPOUT_FAULTS else WORKLOAD
