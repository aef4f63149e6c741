"""The cells of the tables of a run, by column: of training, and of each scenario of inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from suite.report import throughput
from suite.report.numbers import (
    UNKNOWN,
    Unit,
    latency_of,
    latency_unit,
    mebibytes,
    number,
    rate_of,
    share_of_peak,
    yes_no,
)
from suite.report.table import (
    BUILD,
    ENERGY,
    FIRST_INFERENCE,
    INTERVAL,
    J_INFERENCE,
    MFU,
    P90_ESTIMATE,
    P99_ESTIMATE,
    SAME_WORK,
    TOKENS,
    known_columns,
)
from suite.report.titles import framework_of
from suite.results.roofline import HardwarePeak, share

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

Cells = dict[str, str]
KNEE = "knee"  # a column only where there are several batch sizes
# Columns that are shown only where a row has a value.
OPTIONAL = (
    *(TOKENS, MFU, "epoch", "accuracy", "test loss"),
    *(ENERGY, J_INFERENCE, P90_ESTIMATE, P99_ESTIMATE),
)
PERCENTILES = ("90", "95", "99", "99.9")  # beside the median


def cells_of(trials: Sequence[TrialSummary], peak: HardwarePeak | None) -> list[Cells]:
    """The cells of each trial of a table, by column, without optional columns that no row has.

    Trials are compared with the fastest proven one; where none is proven, with the fastest.
    """
    proven = [trial for trial in trials if trial.parity.proven] or [*trials]
    best = max(proven, key=lambda each: each.speed)
    scenario, unit = trials[0].record.workload.scenario, unit_of(trials)
    if scenario is None:
        rows = [_training(trial, best, peak) for trial in trials]
    elif scenario == "offline":
        knees = throughput.knees(trials)
        rows = [
            _offline(trial, best, peak, knee=trial.record.trial_id in knees) for trial in trials
        ]
        if not throughput.has_batches(trials):
            rows = [{name: row[name] for name in row if name != KNEE} for row in rows]
    else:
        rows = [_queries(trial, best, unit) for trial in trials]
    return known_columns(rows, OPTIONAL)


def unit_of(trials: Sequence[TrialSummary]) -> Unit:
    """The unit of all latencies in the table of these trials."""
    server = trials[0].record.workload.scenario == "server"
    smallest = "99" if server else "50"
    return latency_unit(each.queries.percentiles_s.get(smallest) for each in trials if each.queries)


def latencies_in(trials: Sequence[TrialSummary]) -> str:
    """The end of a title of a table with latencies; empty for others."""
    scenario = trials[0].record.workload.scenario
    return f", latencies in {unit_of(trials).symbol}" if scenario not in (None, "offline") else ""


def _training(trial: TrialSummary, best: TrialSummary, peak: HardwarePeak | None) -> Cells:
    return {
        **_configuration(trial),
        "samples/s": rate_of(trial.samples_per_s.median),
        TOKENS: number(trial.tokens_per_s, "{:,.0f}"),
        **_spread(trial, best),
        MFU: _of_peak(trial, peak),
        "first step": number(trial.first_step_s, "{:.2f} s"),
        "epoch": number(trial.epoch_s, "{:.1f} s"),
        "accuracy": number(trial.accuracy, "{:.2%}"),
        "test loss": number(trial.test_loss if trial.accuracy is None else None, "{:.4g}"),
        "memory": mebibytes(trial.memory_bytes),
        ENERGY: _energy(trial),
        **_outcome(trial),
    }


def _offline(
    trial: TrialSummary, best: TrialSummary, peak: HardwarePeak | None, *, knee: bool
) -> Cells:
    return {
        **_configuration(trial),
        "batch": str(trial.record.workload.batch_size),
        "samples/s": rate_of(trial.samples_per_s.median),
        TOKENS: number(trial.tokens_per_s, "{:,.0f}"),
        **_spread(trial, best),
        KNEE: KNEE if knee else "",
        MFU: _of_peak(trial, peak),
        **_of_inference(trial),
    }


def _queries(trial: TrialSummary, best: TrialSummary, unit: Unit) -> Cells:
    """Of single_stream and multi_stream, by latency; of server, by the rate that holds."""
    found = trial.queries.percentiles_s if trial.queries else {}
    estimate = trial.queries.early_stopping_s if trial.queries else {}
    bound_s = trial.record.workload.latency_bound_s
    latencies = {f"p{name}": latency_of(found.get(name), unit) for name in PERCENTILES}
    if bound_s:
        own = {"queries/s": rate_of(trial.measured.median), **_spread(trial, best)}
        own |= {"bound": latency_of(bound_s, unit), "p99": latencies["p99"]}
    else:
        own = {
            "p50": latency_of(trial.measured.median, unit),
            **_spread(trial, best),
            **latencies,
            "mean": latency_of(trial.queries.mean_s if trial.queries else None, unit),
            P90_ESTIMATE: latency_of(estimate.get("90"), unit),
            P99_ESTIMATE: latency_of(estimate.get("99"), unit),
            "samples/s": rate_of(trial.samples_per_s.median),
        }
    return {**_configuration(trial), **own, **_of_inference(trial)}


def _configuration(trial: TrialSummary) -> Cells:
    title = framework_of(trial.record)
    return {
        "framework": f"{title} {trial.framework_version or ''}".strip(),
        "variant": trial.record.variant,
        "track": trial.record.track + (" (TF32)" if trial.record.arithmetic == "tf32" else ""),
    }


def _spread(trial: TrialSummary, best: TrialSummary) -> Cells:
    """The interval of what is compared, and its ratio to that of `best`: of proven rows only."""
    own, of_best, every = trial.measured, best.measured.median, len(trial.statuses)
    ratio = own.median / of_best if trial.parity.proven and own.median and of_best else None
    return {
        INTERVAL: number(own.spread, "±{:.1%}"),
        "runs": str(every) if own.runs == every else f"{own.runs} of {every}",
        "vs best": number(ratio, "{:.2f}"),
    }


def _of_inference(trial: TrialSummary) -> Cells:
    overhead = trial.queries.overhead_share if trial.queries else None
    return {
        BUILD: number(trial.build_s, "{:.2f} s"),
        FIRST_INFERENCE: number(trial.first_result_s, "{:.2f} s"),
        "memory": mebibytes(trial.memory_bytes),
        J_INFERENCE: _energy(trial),
        "accuracy": number(trial.accuracy, "{:.2%}"),
        "overhead": number(overhead, "{:.1%}"),
        **_outcome(trial),
    }


def _outcome(trial: TrialSummary) -> Cells:
    bad = sum(status != "ok" for status in trial.statuses)
    return {
        SAME_WORK: yes_no(trial.parity.proven),
        "status": trial.status + (f" ({bad} of {len(trial.statuses)} runs)" if bad else ""),
    }


def _energy(trial: TrialSummary) -> str:
    energy = trial.energy
    if energy is None:
        return UNKNOWN
    return f"{energy.gross_j_per_sample:.3g} ({number(energy.net_j_per_sample, '{:.3g}')})"


def _of_peak(trial: TrialSummary, peak: HardwarePeak | None) -> str:
    reached = share(trial.record, trial.samples_per_s.median, peak)
    return share_of_peak(reached.compute) if reached else UNKNOWN
