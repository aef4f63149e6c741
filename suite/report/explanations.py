"""What the columns of the tables mean, with the page that has the method."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from suite.errors import UsageError
from suite.report.table import (
    BUILD,
    ENERGY,
    FIRST_INFERENCE,
    INTERVAL,
    J_INFERENCE,
    LINES,
    MFU,
    OFFLINE_RATE,
    OVER_LOWEST,
    P90_ESTIMATE,
    P99_ESTIMATE,
    SAME_WORK,
    TOKENS,
    TRAINING_LINES,
    TRAINING_RATE,
)
from suite.report.throughput import KNEE_SHARE


@dataclass(frozen=True)
class Explanation:
    """The meaning of a heading, and a page of the documentation."""

    text: str
    page: str = "docs/explanation/method.md"


MOST = 5  # headings in the error for an unknown one
EXPLANATIONS = {
    "framework": Explanation("The framework and its version.", "docs/reference/frameworks.md"),
    "variant": Explanation(
        "One way to use the framework, such as eager or compiled.",
        "docs/reference/configurations.md",
    ),
    "track": Explanation(
        "The rules for the runtime settings: equal is the default variant of each framework under "
        "equal settings, tuned a chosen variant with its settings, default the framework's own "
        "settings.",
        "docs/reference/configurations.md",
    ),
    "configuration": Explanation(
        "Framework, variant and, where it is not equal, track.", "docs/reference/configurations.md"
    ),
    "samples/s": Explanation(
        "Samples of all timed blocks over their duration; the median over runs. Warm-up does not "
        "count. A star in the history: not proven to be the same work."
    ),
    "scenario": Explanation(
        "How queries arrive, by the names of MLPerf: single_stream (one sample, then the next), "
        "multi_stream (batches), offline (all samples at once), server (at random times).",
        "docs/reference/reports.md",
    ),
    "p50": Explanation(
        "The median latency of the queries of a run, by LoadGen; the median over runs. Inputs lie "
        "in host memory, and answers are back in it. These are not results of MLPerf.",
        "docs/reference/reports.md",
    ),
    "p90": Explanation(
        "The latency that 90 % of the queries do not exceed; the median over runs.",
        "docs/reference/reports.md",
    ),
    "p95": Explanation(
        "The latency that 95 % of the queries do not exceed; the median over runs.",
        "docs/reference/reports.md",
    ),
    "mean": Explanation(
        "The mean latency of the queries of a run; the median over runs.",
        "docs/reference/reports.md",
    ),
    "p99": Explanation(
        "The latency that 99 % of the queries do not exceed; the median over runs.",
        "docs/reference/reports.md",
    ),
    "p99.9": Explanation(
        "The latency that 99.9 % of the queries do not exceed; the median over runs. With 2,000 "
        "queries, two are slower.",
        "docs/reference/reports.md",
    ),
    P90_ESTIMATE: Explanation(
        "LoadGen's early-stopping estimate of p90, as that of p99.", "docs/reference/reports.md"
    ),
    P99_ESTIMATE: Explanation(
        "LoadGen's early-stopping estimate of p99: an upper bound that allows for the number of "
        "queries. A dash where there are too few queries for it.",
        "docs/reference/reports.md",
    ),
    "queries/s": Explanation(
        "The highest rate of queries at random times at which 99 % of them are within the latency "
        "bound; found by bisection, the median over runs.",
        "docs/reference/reports.md",
    ),
    "bound": Explanation(
        "The latency that 99 % of the queries may not exceed.", "docs/reference/reports.md"
    ),
    "knee": Explanation(
        f"The smallest batch size with at least {KNEE_SHARE:.0%} of the highest rate of its "
        "series: a larger one gains little.",
        "docs/reference/reports.md",
    ),
    BUILD: Explanation(
        "The duration of building the model from its description, with the compilation that the "
        "framework does ahead of the first call.",
        "docs/reference/reports.md",
    ),
    FIRST_INFERENCE: Explanation(
        "From the description of the model to its first answer: building it, and the first call, "
        "with all compilation.",
        "docs/reference/reports.md",
    ),
    "overhead": Explanation(
        "The latency of the same queries with a model that does nothing, as a share of p50; in "
        "scenario offline, as a share of a call. LoadGen and the worker's own code take it.",
        "docs/reference/reports.md",
    ),
    J_INFERENCE: Explanation(
        "Joules over samples in the timed queries; in brackets without the power of the idle "
        "machine.",
        "docs/reference/reports.md",
    ),
    TOKENS: Explanation("Samples per second times the length of a sequence, for models of text."),
    INTERVAL: Explanation(
        "Half the width of the 95 % bootstrap interval of the median, of the rate or of p50, as a "
        "share of it. The unit is the run, so one run has none. With two to five runs it "
        "reaches from the lowest to the highest, and contains the true median in 50, 75, 88 or "
        "94 % of cases.",
        "docs/explanation/statistics.md",
    ),
    "95 % CI": Explanation(
        "The 95 % bootstrap interval of the ratio.", "docs/explanation/statistics.md"
    ),
    "runs": Explanation("Runs with a rate. Each is a fresh process or container."),
    "vs best": Explanation(
        "The rate over that of the fastest proven row of the table; of latencies, the p50 over the "
        "lowest one: 1.25 is 25 % slower.",
        "docs/explanation/statistics.md",
    ),
    MFU: Explanation(
        "Model FLOPs utilization: the operations of the model per second over the measured peak "
        "rate of this device. Operations that the definition of the model does not need are not "
        "counted."
    ),
    "first step": Explanation("The duration of the first step, with compilation."),
    "epoch": Explanation("The duration of the last whole epoch, without its evaluation."),
    "accuracy": Explanation(
        "On the test split, after the last whole epoch; in inference with --weights, of the "
        "samples that the queries take."
    ),
    "test loss": Explanation(
        "Of targets that are numbers: the mean squared error on the test split, after the last "
        "whole epoch. The targets are standardized, so 1 is the error of their mean."
    ),
    "memory": Explanation("The highest resident memory of the worker, or of the device on a GPU."),
    ENERGY: Explanation(
        "Joules over samples in the timed blocks; in brackets without the power of the idle "
        "machine."
    ),
    SAME_WORK: Explanation(
        "Yes where the certificate, made before the run, and the closing proof, made at its end, "
        "agree with the float64 reference.",
        "docs/reference/proofs.md",
    ),
    "status": Explanation(
        "ok, or failed, timeout, oom (memory ran out) or skipped; the reason is below the table."
    ),
    "model": Explanation("The architecture.", "docs/reference/frameworks.md"),
    "arithmetic": Explanation(
        "The type of the operands of products: float32, tf32 or bfloat16.",
        "docs/reference/configurations.md",
    ),
    "devices": Explanation("How many devices train together.", "docs/how-to/several-devices.md"),
    "batch": Explanation(
        "Samples in a step, of all devices together.", "docs/reference/glossary.md"
    ),
    "input": Explanation(
        "Where each batch comes from before its step.", "docs/reference/protocol.md"
    ),
    "scaling": Explanation(
        "Strong: the same batch on more devices. Weak: a batch that grows with them.",
        "docs/how-to/several-devices.md",
    ),
    "speed-up": Explanation("The rate over that on one device.", "docs/how-to/several-devices.md"),
    "efficiency": Explanation(
        "The speed-up over the number of devices.", "docs/how-to/several-devices.md"
    ),
    "step": Explanation("The duration of a step.", "docs/how-to/several-devices.md"),
    "all-reduce": Explanation(
        "The duration of adding the gradients of all devices, without other work.",
        "docs/how-to/several-devices.md",
    ),
    "rung": Explanation(
        "The level of abstraction of the ladder: 1 is C++ with primitives, 4 is Keras.",
        "docs/explanation/inference.md",
    ),
    OVER_LOWEST: Explanation(
        "How much longer one image takes than on the lowest rung.", "docs/explanation/inference.md"
    ),
    OFFLINE_RATE: Explanation(
        "The highest rate of scenario offline, where all samples are there at once.",
        "docs/explanation/inference.md",
    ),
    TRAINING_RATE: Explanation("The highest rate in training.", "docs/explanation/inference.md"),
    LINES: Explanation(
        "Lines of code of the hand-written script of this rung: the model and a call. The latency "
        "is that of the suite's worker, which may use a faster form of the same interface.",
        "docs/explanation/inference.md",
    ),
    TRAINING_LINES: Explanation(
        "Further lines of the script for training: optimizer, loss and step.",
        "docs/explanation/inference.md",
    ),
    "parameters": Explanation("The trained values of the model.", "docs/reference/frameworks.md"),
    "operation": Explanation(
        "The operation of the peak: matmul in a precision, in GFLOP/s, or copy, in GB/s.",
        "docs/explanation/method.md",
    ),
    "peak": Explanation("The highest rate of all frameworks.", "docs/explanation/method.md"),
    "optimizer": Explanation(
        "The optimizer of the training steps.", "docs/reference/optimizers.md"
    ),
    "steps": Explanation("The steps that the certificate judges.", "docs/reference/proofs.md"),
    **{
        name: Explanation(
            f"The largest relative L2 error of {quantity}, compared with the float64 reference.",
            "docs/reference/proofs.md",
        )
        for name, quantity in {
            "logits": "the logits in training",
            "infer.": "the logits in inference",
            "loss": "the loss",
            "grad.": "a gradient",
            "weig.": "a weight tensor",
            "upd.": "an update of a weight tensor",
            "stat.": "a running statistic of a batch norm",
        }.items()
    },
    "share": Explanation(
        "The largest error as a share of its tolerance.", "docs/reference/proofs.md"
    ),
    "proven": Explanation(
        "Whether all errors are within their tolerance.", "docs/reference/proofs.md"
    ),
    "precision": Explanation("float32 or bf16_mixed.", "docs/reference/configurations.md"),
    "seeds": Explanation(
        "The number of compared runs, each with its own seed.",
        "docs/explanation/statistics.md",
    ),
    "sd": Explanation(
        "The standard deviation of the accuracy over the seeds, in percentage points.",
        "docs/explanation/statistics.md",
    ),
    "against": Explanation(
        "What the accuracies are compared with: the same framework in float32, or the median of "
        "the others.",
        "docs/explanation/statistics.md",
    ),
    "difference": Explanation(
        "The mean difference of accuracies with the same seed, in percentage points.",
        "docs/explanation/statistics.md",
    ),
    "90 % interval": Explanation(
        "The interval of the difference.", "docs/explanation/statistics.md"
    ),
    "equivalent": Explanation(
        "yes where the interval is within ±0.25 points, no where it is outside, else not shown.",
        "docs/explanation/statistics.md",
    ),
    "all-reduce rate": Explanation(
        "The bytes of the gradients of one device over the duration of adding them.",
        "docs/how-to/several-devices.md",
    ),
    "a | b": Explanation("The rows that are compared.", "docs/explanation/statistics.md"),
    "ratio": Explanation(
        "The median rate of b over that of a. Of scenarios with latencies, the p50 of b over that "
        "of a: below 1, b is faster.",
        "docs/explanation/statistics.md",
    ),
    "p": Explanation(
        "The probability of a difference this large by chance, if there is no real one: "
        "Mann-Whitney test of the runs, Wilcoxon signed-rank test of interleaved rounds.",
        "docs/explanation/statistics.md",
    ),
    "b is": Explanation(
        "Faster or slower where p is at most 0.05 and the interval excludes 1.",
        "docs/explanation/statistics.md",
    ),
    "trial": Explanation(
        "Framework, variant, track and, where they differ, device and seed.",
        "docs/reference/glossary.md",
    ),
    "workload": Explanation(
        "Model, dataset, mode, batch size, precision and optimizer.",
        "docs/reference/glossary.md",
    ),
    "largest share": Explanation(
        "The largest error of the certificate as a share of its tolerance: at most 1 where the "
        "work is proven. An error is the relative L2 error of a tensor against the reference.",
        "docs/reference/proofs.md",
    ),
    "largest share at the end": Explanation(
        "The largest share of the closing proof, which compares the last steps of a timed run.",
        "docs/reference/proofs.md",
    ),
    "closing proof": Explanation(
        "Whether the last steps of the first timed run are those of the reference.",
        "docs/reference/proofs.md",
    ),
    "answers": Explanation(
        "The timed answers of inference that were compared with the reference.",
        "docs/reference/proofs.md",
    ),
    "visible updates": Explanation(
        "The share of the parameters whose missing update the closing proof would find; the "
        "updates of the others are smaller than the rounding of the stored weights.",
        "docs/reference/proofs.md",
    ),
    "tensor": Explanation(
        "Logits, loss, a gradient, a weight, an update or a statistic of batch norm.",
        "docs/reference/proofs.md",
    ),
    "largest relative error": Explanation(
        "The relative L2 error of the tensor against the reference, in the step with the largest "
        "share of its tolerance.",
        "docs/reference/proofs.md",
    ),
    "tolerance": Explanation("The largest error that is accepted.", "docs/reference/proofs.md"),
    "share of the tolerance": Explanation(
        "The error over the tolerance: at most 1 where the work is proven.",
        "docs/reference/proofs.md",
    ),
    "blocks": Explanation(
        "The blocks of steps of a run: in the warm-up, and timed. The rate is that of the timed "
        "blocks that are not disturbed."
    ),
    "steady": Explanation("Whether the rate was steady at the end of the warm-up."),
    "whole run": Explanation("The duration of the worker's process, from start to end."),
    "queries": Explanation("The timed queries of a run.", "docs/reference/reports.md"),
    "fact": Explanation("A property of the machine.", "docs/reference/reports.md"),
    "value": Explanation("The value of the fact.", "docs/reference/reports.md"),
    "device": Explanation(
        "The device set: cpu, or cuda, with the number of devices.",
        "docs/reference/glossary.md",
    ),
    "packages": Explanation(
        "The versions in the worker's process.", "docs/reference/frameworks.md"
    ),
    "lock (SHA-256)": Explanation(
        "The digest of the list of all packages with their hashes.", "docs/reference/containers.md"
    ),
    "reason": Explanation("Why the work is not proven to be the same.", "docs/reference/proofs.md"),
    "date": Explanation("When the run started, by its name.", "docs/how-to/history.md"),
    "run": Explanation("The name of the run's folder.", "docs/how-to/history.md"),
    "version": Explanation("The version of the framework.", "docs/how-to/history.md"),
    "changed": Explanation(
        "What differs from the run before it: version (the framework's), lock, image, dlsuite, "
        "kernel.",
        "docs/how-to/history.md",
    ),
    "change point": Explanation(
        "At this run the level changes, by Pettitt's test: the median from it on divided by the "
        "median before it, and p.",
        "docs/how-to/history.md",
    ),
}


def explanation(heading: str) -> Explanation:
    """The explanation of a heading, in any case; UsageError for an unknown one."""
    known = {name.casefold(): each for name, each in EXPLANATIONS.items()}
    found = known.get(heading.casefold())
    if found is None:
        word = heading.casefold()
        about = [name for name, each in EXPLANATIONS.items() if word in each.text.casefold()]
        near = get_close_matches(heading, EXPLANATIONS, n=MOST, cutoff=0.0)
        names = f"about it: {', '.join(about[:MOST])}" if about else f"nearest: {', '.join(near)}"
        raise UsageError(f"unknown column {heading!r}; {names}", hint="dlsuite explain")
    return found
