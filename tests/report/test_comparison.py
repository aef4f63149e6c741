"""Pairs of trials: which are comparable, why others are refused, and how rates are compared."""

import random
from collections.abc import Sequence

from suite.manifests.workloads import Sgd
from suite.report.comparison import Comparisons, compare
from suite.report.summary import TrialSummary, summarise
from suite.results.blocks import Block, Blocks
from suite.results.record import Error, Parity
from tests.report.made_inference import inferred
from tests.results.test_record import WORKLOAD, record

STEADY = (100.0, 101.0, 99.0, 100.5)


def trials(rates: tuple[float, ...] = STEADY, **changes: object) -> list[TrialSummary]:
    """One trial with a run for each rate."""
    return summarise(
        record(repeat=repeat, samples_per_s=rate, **changes) for repeat, rate in enumerate(rates)
    )


def slowed(share: float) -> tuple[float, ...]:
    """The rates of STEADY, all slower by this share."""
    return tuple(rate * (1 - share) for rate in STEADY)


def refused(found: Comparisons) -> str:
    """The reason why the only pair is not compared."""
    (pair,) = found.pairs
    assert pair.difference is None and pair.refused is not None
    return pair.refused


def test_equal_work_is_compared_and_the_slower_side_is_named() -> None:
    (pair,) = compare(trials(), trials(slowed(0.1), run_id="s")).pairs
    assert pair.refused is None and pair.difference is not None
    assert pair.difference.verdict == "slower"
    assert abs(pair.difference.ratio - 0.9) < 1e-9


def test_unequal_work_has_no_partner_and_the_differing_fields_are_named() -> None:
    found = compare(trials(), trials(batch_size=128, device="cuda"))
    assert not found.pairs
    assert found.unmatched == (
        "pytorch:eager of r, lenet: no comparable trial: the nearest differs in "
        "batch_size (64, 128), device (cpu, cuda)",
        "pytorch:eager of r, lenet: no comparable trial: the nearest differs in "
        "batch_size (128, 64), device (cuda, cpu)",
    )
    assert "there is none" in compare(trials(), []).unmatched[0]


def test_trials_with_other_numbers_of_cores_are_not_compared() -> None:
    alone, beside = trials(device="cpu:1"), trials(device="cpu:1", cpu_parts=2)
    assert "cpu_parts (1, 2)" in compare(alone, beside).unmatched[0]


def test_the_optimizer_is_part_of_the_work() -> None:
    other = Sgd(name="sgd", learning_rate=0.1)
    unmatched = compare(trials(), trials(optimizer=other)).unmatched[0]
    assert unmatched.endswith("optimizer (sgd 0.01, sgd 0.1)")


def test_epochs_and_the_learning_rate_of_the_proof_are_not_part_of_the_work() -> None:
    other = WORKLOAD.model_copy(update={"epochs": 0, "proof_learning_rate": 0.001})
    (pair,) = compare(trials(), trials(workload=other, run_id="s")).pairs
    assert pair.difference is not None and pair.difference.verdict == "no difference shown"


def test_trials_of_one_framework_are_paired_unless_configurations_are_compared() -> None:
    jax = trials(framework="jax", variant="jit", trial_id="jax-jit")
    assert not compare(trials(), jax).pairs
    (pair,) = compare(trials(), jax, across=True).pairs
    assert pair.difference is not None and pair.difference.verdict == "no difference shown"
    both = compare([*trials(), *jax], [*jax, *trials()])
    assert [pair.a.record.framework for pair in both.pairs] == ["pytorch", "jax"]
    assert [pair.b.record.framework for pair in both.pairs] == ["pytorch", "jax"]


def test_a_trial_that_is_not_proven_or_has_no_rate_is_not_compared() -> None:
    unproven = Parity(proven=False, reason="step 3: loss is off")
    assert refused(compare(trials(), trials(parity=unproven, run_id="s"))) == (
        "pytorch:eager of s is not proven to be the same work: step 3: loss is off"
    )
    error = Error(error_class="OutOfMemory", message="killed")
    failed = summarise([record(status="oom", error=error)])
    assert refused(compare(failed, trials())) == "pytorch:eager of r has no rate: killed"


def test_other_versions_and_machines_are_compared_and_listed() -> None:
    here = {"cpus": [0, 1], "cpu": "EPYC", "gpus": [{"name": "H200", "uuid": "1"}]}
    there = {"cpus": [0, 1, 2], "cpu": "Xeon", "gpus": [{"name": "H200", "uuid": "2"}]}
    both = (
        trials(environment=here, framework_version="2.0"),
        trials(environment=there, framework_version="2.1"),
    )
    reason = "pytorch:eager of r ran on another machine than a: cpu (EPYC, Xeon), cores (2, 3)"
    assert refused(compare(*both)) == reason
    (pair,) = compare(*both, across_machines=True).pairs
    assert pair.difference is not None
    assert pair.other_differences == (
        "framework version (2.0, 2.1)",
        "cpu (EPYC, Xeon)",
        "cpus ([0, 1], [0, 1, 2])",
    )


def blocks(rate: float, first_ns: int) -> Blocks:
    """One block of warm-up and five after it, a tenth of a second each."""
    return Blocks.of(
        Block(
            warmup=number == 0,
            monotonic_ns=first_ns + number * 200_000_000,
            steps=1,
            duration_s=0.1,
            samples_per_s=rate,
        )
        for number in range(6)
    )


def test_interleaved_runs_are_compared_block_by_block() -> None:
    """The rates of the whole runs are equal, but the blocks of b are slower."""
    both = (
        summarise(
            record(interleaved=2, repeat=n, samples_per_s=100.0, blocks=blocks(100.0, 0))
            for n in range(6)
        ),
        summarise(
            record(
                interleaved=2,
                repeat=n,
                samples_per_s=100.0,
                blocks=blocks(90.0 + n / 10, 10**8),
                trial_id="x",
                variant="x",
            )
            for n in range(6)
        ),
    )
    (pair,) = compare(*both, across=True).pairs
    assert pair.difference is not None and pair.difference.verdict == "slower"
    assert abs(pair.difference.ratio - 0.9025) < 1e-9


def test_interleaved_trials_of_one_run_are_compared_round_by_round() -> None:
    rates = (100.0, 400.0, 80.0, 250.0, 310.0, 150.0)
    slower = tuple(rate * (0.97 + number / 1000) for number, rate in enumerate(rates))
    jax = {"framework": "jax", "variant": "jit", "trial_id": "jax-jit"}
    both = (trials(rates, interleaved=2), trials(slower, interleaved=2, **jax))
    (pair,) = compare(*both, across=True).pairs
    assert pair.difference is not None
    assert (pair.difference.test, pair.difference.verdict) == ("Wilcoxon", "slower")
    of_another_run = trials(slower, interleaved=2, run_id="s", **jax)
    (pair,) = compare(both[0], of_another_run, across=True).pairs
    assert pair.difference is not None and pair.difference.test == "Mann-Whitney"
    assert "interleaved (2, 1)" in compare(both[0], trials(), across=True).unmatched[0]


def latencies(p50_s: Sequence[float], **changes: object) -> list[TrialSummary]:
    """A trial of single_stream with a run for each median latency."""
    return summarise(
        inferred(p50_s=value, repeat=repeat, **changes) for repeat, value in enumerate(p50_s)
    )


def drawn(factor: float, seed: int, runs: int = 10) -> list[float]:
    """Median latencies of runs that vary by 1 %, some of them disturbed; times `factor`."""
    generator = random.Random(seed)
    return [
        300e-6 * factor * generator.gauss(1, 0.01) * (1.1 if generator.random() < 0.05 else 1)
        for _ in range(runs)
    ]


def verdicts(factor: float, *, pairs: int = 30) -> list[str]:
    """The verdict of each of many comparisons in which b has `factor` times the latency of a."""
    found = []
    for number in range(pairs):
        a = latencies(drawn(1.0, 2 * number))
        b = latencies(drawn(factor, 2 * number + 1), run_id="b")
        (pair,) = compare(a, b).pairs
        assert pair.difference is not None
        found.append(pair.difference.verdict)
    return found


def test_a_planted_delay_is_found_and_equal_latencies_do_not_differ() -> None:
    assert verdicts(1.05).count("slower") >= 29  # of 30
    assert verdicts(0.95).count("faster") >= 29
    assert verdicts(1.0).count("no difference shown") >= 27


def test_a_lower_latency_is_faster_whatever_the_rate() -> None:
    a = latencies([3e-4, 3.01e-4, 2.99e-4, 3.02e-4])
    b = latencies([2e-4, 2.01e-4, 1.99e-4, 2.02e-4], run_id="b", samples_per_s=1.0)
    (pair,) = compare(a, b).pairs
    assert pair.difference is not None and pair.difference.lower_is_better
    assert pair.difference.verdict == "faster"
    assert abs(pair.difference.slower_by + 1 / 3) < 0.01


def test_a_trial_without_a_latency_is_not_compared() -> None:
    unknown = summarise([inferred(percentiles_s={})])
    assert refused(compare(unknown, latencies([3e-4]))).startswith(
        "pytorch:eager of r has no p50 latency"
    )


def test_other_scenarios_batch_sizes_and_bounds_are_other_work() -> None:
    found = compare(latencies([3e-4]), summarise([inferred("multi_stream")]))
    assert not found.pairs and "scenario (single_stream, multi_stream)" in found.unmatched[0]
    servers = [summarise([inferred("server", latency_bound_s=bound)]) for bound in (0.01, 0.02)]
    assert "latency_bound_s (0.01, 0.02)" in compare(*servers).unmatched[0]


def test_interleaved_trials_are_paired_by_their_seed() -> None:
    """The rounds of other seeds did not run together."""

    def seeds(framework: str, *order: int) -> list[TrialSummary]:
        values = {"framework": framework, "interleaved": 2}
        rates = (*STEADY, *slowed(0.01 if framework == "jax" else 0.02))
        return [
            trial
            for seed in order
            for trial in trials(rates, seed=seed, trial_id=f"{framework}-{seed}", **values)
        ]

    found = compare(seeds("pytorch", 1, 2), seeds("jax", 2, 1), across=True)
    assert [(pair.a.record.seed, pair.b.record.seed) for pair in found.pairs] == [(1, 1), (2, 2)]
    (pair,) = compare(seeds("pytorch", 1), seeds("jax", 2), across=True).pairs
    assert pair.difference is not None and pair.difference.test == "Mann-Whitney"
