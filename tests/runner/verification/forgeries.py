"""Forgeries of a run, and what `verify` says of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from suite.results import store

Values = dict[str, Any]


def change(path: Path, edit: Callable[[Values], object]) -> None:
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values, indent=1))


def records(run: Path, pattern: str = "*-r*.json") -> list[Path]:
    found = sorted(run.glob(pattern))
    assert found
    return found


def in_records(run: Path, edit: Callable[[Values], object], pattern: str = "*-r*.json") -> None:
    for path in records(run, pattern):
        change(path, edit)


def lines_of(path: Path, edit: Callable[[Values], object]) -> None:
    """Change each line of a file of JSON lines."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        edit(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def in_events(run: Path, edit: Callable[[Values], object], pattern: str = "*") -> None:
    for path in sorted(run.glob(f"logs/{pattern}.events.jsonl")):
        lines_of(path, edit)


def in_samples(run: Path, edit: Callable[[Values], object]) -> None:
    for path in sorted(run.glob("logs/*.telemetry.jsonl")):
        lines_of(path, edit)


def swap(one: Path, other: Path) -> None:
    text = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(text)


def again(run: Path) -> None:
    """Compute the figures of all records again from events and samples, as a forger would."""
    from suite.engines.attempt import Attempt
    from suite.protocol import events
    from suite.results.logs import samples_of
    from suite.runner import recording

    for path in records(run):
        record = store.read_record(path)
        reported = events.read(run / "logs" / f"{path.stem}.events.jsonl")
        samples = samples_of(run / "logs" / f"{path.stem}.telemetry.jsonl")
        attempt = Attempt(status=record.status, error=None, events=reported, samples=samples)
        figures = recording.measured(
            attempt, record.workload.batch_size, record.measure.min_measure_s, record.name
        )
        times = figures["times"].model_copy(update={"total_s": record.times.total_s})
        made = record.model_copy(update={**figures, "times": times})
        path.write_text(made.model_dump_json(indent=1))


# The forgeries of a colleague who distrusted the first version.


def frameworks_swapped(run: Path) -> None:
    """Consistently: figures, events and samples of each pair of runs."""
    for path in records(run, "jax-*-r*.json"):
        other = next(run.glob(f"pytorch-*{path.name[-8:]}"))
        for name in ("events.jsonl", "telemetry.jsonl"):
            swap(run / f"logs/{path.stem}.{name}", run / f"logs/{other.stem}.{name}")
        versions = [store.read_record(each).framework_version for each in (path, other)]
        for each, version in zip((path, other), versions, strict=True):
            reported = run / f"logs/{each.stem}.events.jsonl"

            def named(event: Values, version: str | None = version) -> None:
                if event["event"] == "started":
                    event["framework_version"] = version

            lines_of(reported, named)
    again(run)


def slowest_removed(run: Path) -> None:
    """Another repeat of each trial; the others are renumbered, and the plan has two repeats."""
    for framework, removed in (("pytorch", 0), ("jax", 1)):
        for repeat in range(removed, 2):
            new = next(run.glob(f"{framework}-*-r{repeat}.json"))
            old = next(run.glob(f"{framework}-*-r{repeat + 1}.json"))
            for ending in (".events.jsonl", ".telemetry.jsonl", ".log"):
                shutil.copy(run / f"logs/{old.stem}{ending}", run / f"logs/{new.stem}{ending}")
            shutil.copy(old, new)

            def renumber(values: Values, repeat: int = repeat, stem: str = new.stem) -> None:
                values |= {"repeat": repeat, "log": f"logs/{stem}.log"}

            change(new, renumber)
    last_round_removed(run)


def bind(run: Path) -> None:
    """Correct the digest of the plan in the starts of the run."""
    from suite.paths import sha256

    digest = sha256(run / "plan.json")
    for path in run.glob("starts/*.json"):
        change(path, lambda values: values.update(plan_sha256=digest))


def fastest_copied(run: Path) -> None:
    (fast, slow) = records(run, "jax-*-r[12].json")
    for name in ("events.jsonl", "telemetry.jsonl"):
        shutil.copy(run / f"logs/{fast.stem}.{name}", run / f"logs/{slow.stem}.{name}")
    again(run)


def faster_blocks(values: Values) -> None:
    if values["event"] in ("warmup", "block"):
        values["duration_s"] /= 1.3
        values["samples_per_s"] *= 1.3


def all_faster_without_telemetry(run: Path) -> None:
    in_events(run, faster_blocks)
    telemetry_removed(run)
    again(run)


def all_faster(run: Path) -> None:
    in_events(run, faster_blocks)
    again(run)


def twice_the_steps(run: Path) -> None:
    def double(event: Values) -> None:
        for name in ("step", "steps", "optimizer_steps"):
            if name in event:
                event[name] *= 2
        if "samples_per_s" in event:
            event["samples_per_s"] *= 2

    in_events(run, double)
    again(run)


def telemetry_removed(run: Path) -> None:
    for path in run.glob("logs/*.telemetry.jsonl"):
        path.unlink()
    again(run)


def peak_removed(run: Path) -> None:
    (run / "peak.yaml").unlink()
    place = run / "worker/frameworks/jax"  # the made run has a script for a worker
    place.mkdir(parents=True)
    (place / "peak.py").touch()


def other_version(run: Path) -> None:
    def rename(event: Values) -> None:
        if event["event"] == "started":
            event["framework_version"] = "9.9.9"

    in_events(run, rename, "jax-*")
    in_records(run, lambda values: values.update(framework_version="9.9.9"), "jax-*-r*.json")


def environment(name: str, value: object, pattern: str) -> Callable[[Path], None]:
    def forge(run: Path) -> None:
        in_records(run, lambda values: values["environment"].update({name: value}), pattern)

    return forge


def own_python_hidden(run: Path) -> None:
    def named(values: Values) -> None:
        values["engine_options"]["pythons"] = ["jax=/usr/bin/python3"]

    change(run / "plan.json", named)
    bind(run)


def other_engine(run: Path) -> None:
    change(run / "plan.json", lambda values: values["engine_options"].update(engine="docker"))
    in_records(run, lambda values: values.update(engine="docker"))
    bind(run)


def more_accurate(run: Path) -> None:
    def better(event: Values) -> None:
        if event["event"] == "epoch":
            event["test_accuracy"] += 0.2

    in_events(run, better)
    again(run)


def less_memory(run: Path) -> None:
    def half(event: Values) -> None:
        if event["event"] == "memory":
            event["host_rss_peak_bytes"] //= 2

    in_events(run, half)
    again(run)


def claim_added(run: Path) -> None:
    (run / "CERTIFIED.txt").write_text("audited")


# Ten more.


def run_hidden_as_skipped(run: Path) -> None:
    error = {"error_class": "NoGrowth", "message": "slow", "hint": None}
    name = "jax-*-r2.json"
    in_records(run, lambda values: values.update(status="skipped", error=error), name)


def run_hidden_as_failed(run: Path) -> None:
    error = {"error_class": "Impossible", "message": "the clock ran backwards", "hint": None}
    in_records(run, lambda values: values.update(status="failed", error=error), "jax-*-r2.json")


def failure_invented(run: Path) -> None:
    error = {"error_class": "RuntimeError", "message": "crashed", "hint": None}
    in_records(run, lambda values: values.update(status="failed", error=error), "jax-*-r2.json")


def blocks_removed(run: Path) -> None:
    """The slow ones in the middle, from events and records."""
    for path in run.glob("logs/jax-*.events.jsonl"):
        rows = path.read_text().splitlines()
        slow = next(row for row in rows if '"block"' in row)
        path.write_text("".join(row + "\n" for row in rows if row != slow))
    again(run)


def busier_hidden(run: Path) -> None:
    """Other processes vanish, by less busy processors of the machine."""
    in_samples(run, lambda sample: sample.update(busy_s=sample["busy_s"] * 0.5))
    again(run)


def samples_of_other_time(run: Path) -> None:
    def later(sample: Values) -> None:
        sample["monotonic_ns"] += 10**12

    in_samples(run, later)
    again(run)


def shorter_run(run: Path) -> None:
    in_records(run, lambda values: values["times"].update(total_s=1.0), "jax-*-r2.json")


def log_removed(run: Path) -> None:
    next(run.glob("logs/jax-*-r1.log")).unlink()


def trial_removed(run: Path) -> None:
    """A competitor, from plan and records."""
    for path in [*run.rglob("pytorch-*-r*")]:
        path.unlink()

    def without(values: Values) -> None:
        kept = [each["framework"] != "pytorch" for each in values["plan"]["trials"]]
        values["plan"]["trials"] = [
            each for each, keep in zip(values["plan"]["trials"], kept, strict=True) if keep
        ]
        values["runs"] = [[0, repeat] for position, repeat in values["runs"] if kept[position]]

    change(run / "plan.json", without)


def other_model(run: Path) -> None:
    """With half of the classes, so that it has less work to do."""
    for path in run.glob("inputs/*.json"):
        change(path, lambda values: values["architecture"].update(name="lenet5"))


def predictions_of_chance(run: Path) -> None:
    for path in run.glob("logs/*.predictions.npy"):
        np.save(path, np.zeros((2, 40), np.uint8))


def clock_of_other_boot(run: Path) -> None:
    in_records(run, lambda values: values["environment"].update(boot_id="0"), "jax-*-r1.json")


def loss_of_other_work(run: Path) -> None:
    def other(event: Values) -> None:
        if event["event"] == "compiled":
            event["loss"] *= 1.1

    in_events(run, other, "jax-*-r1")


# More, of the second version: parts that are left out, text that has two readings, and times.


def removed(name: str) -> Callable[[Path], None]:
    def forge(run: Path) -> None:
        shutil.rmtree(run / name)

    return forge


def predictions_removed(run: Path) -> None:
    for path in run.glob("logs/*.predictions.npy"):
        path.unlink()
    more_accurate(run)


def records_of_older_version(run: Path) -> None:
    """Of which a verification would only compare the checksum."""
    name = '"schema_version": 12'
    path = records(run)[0]
    path.write_text(path.read_text().replace(name, '"schema_version": 11'))


def plan_of_older_version(run: Path) -> None:
    change(run / "plan.json", lambda values: values.update(version=8))
    bind(run)


def key_twice(run: Path) -> None:
    path = records(run)[0]
    path.write_text(
        path.read_text().replace('"samples_per_s"', '"samples_per_s": 9, "samples_per_s"')
    )


def key_twice_in_plan(run: Path) -> None:
    path = run / "plan.json"
    path.write_text(path.read_text().replace('"title"', '"title": "other", "title"', 1))
    bind(run)


def record_is_link(run: Path) -> None:
    path = records(run)[0]
    path.rename(run.parent / "elsewhere.json")
    path.symlink_to(run.parent / "elsewhere.json")


def start_of_other_year(run: Path) -> None:
    for path in run.glob("starts/*.json"):
        change(path, lambda values: values.update(time="2001-01-01T00:00:00+00:00"))


def start_copied(run: Path) -> None:
    shutil.copy(run / "starts/1.json", run / "starts/2.json")


def quiet_machine(run: Path) -> None:
    in_records(run, lambda values: values["environment"].update(load_average_1min=-1.0))


def other_origin(run: Path) -> None:
    in_records(run, lambda values: values.update(data_origin="the author"))


def fewer_parameters(run: Path) -> None:
    in_events(run, lambda event: event.update(parameters=7) if "parameters" in event else None)
    in_records(run, lambda values: values.update(parameters=7))


def slow_to_build(run: Path) -> None:
    in_events(run, lambda event: event.update(build_s=9.0) if "build_s" in event else None, "jax-*")
    again(run)


def proofs_claimed(run: Path) -> None:
    change(run / "plan.json", lambda values: values["plan"].update(verify_runs=True))
    bind(run)


def certificate_of_other_model(run: Path) -> None:
    for path in run.glob("certificates/*.json"):
        change(path, lambda values: values.update(model="mlp"))


def certificates_of_other_data(run: Path) -> None:
    """With all that follows: keys, names of files and records."""
    from suite.parity.certificates import key_of

    for path in [*run.glob("certificates/*.json")]:
        values = json.loads(path.read_text())
        values["of"]["inputs"] = "0" * 64
        values["key"] = key_of(values["of"])
        path.unlink()
        (path.parent / f"{values['key']}.json").write_text(json.dumps(values))
        for record in records(run):
            record.write_text(record.read_text().replace(path.stem, values["key"]))


def peak_of_other_device(run: Path) -> None:
    path = run / "peak.yaml"
    path.write_text(path.read_text().replace("device: cpu", "device: cuda"))


def nested_too_deeply(run: Path) -> None:
    next(run.glob("inputs/*.json")).write_text("[" * 100_000)


FOUND: dict[Callable[[Path], None], str] = {
    frameworks_swapped: "order: expected that of the plan",
    slowest_removed: "order: expected that of the plan",
    fastest_copied: "durations: expected its own",
    all_faster_without_telemetry: "telemetry: expected a sample each 0.25 s, found none",
    all_faster: "time between blocks: expected at most 15% of a block",
    twice_the_steps: "steps before the first block: expected one call",
    telemetry_removed: "telemetry: expected a sample each 0.25 s, found none",
    peak_removed: "peak.yaml: file: expected a hardware peak, measured with jax",
    other_version: "framework_version: expected jax ",
    environment("os", "Fast OS", "jax-*-r1.json"): "environment.os: expected ",
    environment("kernel", "9.0", "*-r*.json"): "environment.kernel: expected ",
    environment("python", "4.0", "jax-*-r1.json"): "environment.python: expected ",
    environment("governor", "performance", "*-r*.json"): "environment.governor: expected ",
    environment("cpus", [90, 91, 92], "*-r*.json"): "machine of the plan: expected ",
    own_python_hidden: "environment.own_python: expected True, found False",
    other_engine: "image_id: expected that of a container",
    more_accurate: "accuracy of epoch 1: expected 0.7500 of logs/",
    less_memory: "memory.host_rss_peak_bytes: expected at least the sampled ",
    claim_added: "CERTIFIED.txt: ",
    run_hidden_as_skipped: "status: expected none of skipped",
    run_hidden_as_failed: "status: expected ok, its figures are possible",
    failure_invented: "error: expected a failure in the events, found RuntimeError",
    blocks_removed: "steps of block 2: expected 20, found 10",
    busier_hidden: "processor time of the worker: expected at most the machine's",
    samples_of_other_time: "time of the telemetry: expected around all timed blocks",
    shorter_run: "times.total_s: expected at least the worker's",
    log_removed: "log: expected logs/",
    trial_removed: "plan_sha256: expected ",
    other_model: "architecture: expected that of the certificates",
    predictions_of_chance: "accuracy of epoch 1: expected 1.0000",
    clock_of_other_boot: "environment.boot_id: expected ",
    loss_of_other_work: "loss of step 1: expected 2.3, found 2.53",
    removed("worker"): "worker: file: expected its source, found none",
    removed("starts"): "starts: file: expected the start of the run, found none",
    removed("inputs"): "lenet-mnist.json: file: expected its model and its dataset, found none",
    removed("locks"): "locks/jax.txt: file: expected the lock of the plan, found none",
    removed("certificates"): "certificates: file: expected the certificates, found none",
    predictions_removed: "predictions: expected logs/",
    records_of_older_version: "schema_version: expected at least 12",
    plan_of_older_version: "plan.json: version: expected version 9",
    key_twice: "key 'samples_per_s' is given twice",
    key_twice_in_plan: "plan.json: content: expected a plan",
    record_is_link: "file: expected a regular one, found a link",
    start_of_other_year: "time: expected about that of the run's name",
    start_copied: "time of the next start: expected one after that of ",
    quiet_machine: "environment.load_average_1min: expected ",
    other_origin: "data_origin: expected ",
    fewer_parameters: "parameters: expected 431080, found 7",
    slow_to_build: "build_s: expected at most 0.2 s, found 9 s",
    proofs_claimed: "parity.closing: expected one, the plan proves every run",
    certificate_of_other_model: ": model: expected lenet, found mlp",
    certificates_of_other_data: "inputs_sha256: expected ",
    peak_of_other_device: "peak.yaml: device: expected cpu, found cuda",
    nested_too_deeply: "content: expected a model and its dataset, found not JSON: too many levels",
}


# What only a witness finds: a signature of somebody who was there, or the repetition of the runs.


def errors_divided(run: Path) -> None:
    """Errors of certificates, with all values that follow from them."""

    def less(values: Values) -> None:
        values["errors"] = [{k: v / 10 for k, v in step.items()} for step in values["errors"]]
        values["worst"] = {name: error / 10 for name, error in values["worst"].items()}
        values["share"] /= 10

    for path in run.glob("certificates/*.json"):
        change(path, less)


def last_round_removed(run: Path) -> None:
    for path in [*run.rglob("*-r2.*")]:
        path.unlink()
    in_records(run, lambda values: values["repeats"].update(at_least=2, at_most=2))

    def fewer(values: Values) -> None:
        values["plan"]["repeats"].update(at_least=2, at_most=2)
        values["runs"] = [pair for pair in values["runs"] if pair[1] < 2]

    change(run / "plan.json", fewer)
    bind(run)


def other_system_everywhere(run: Path) -> None:
    in_records(run, lambda values: values["environment"].update(kernel="9.0"))
    for path in run.glob("starts/*.json"):
        change(path, lambda values: values["host"].update(kernel="9.0"))


NOT_FOUND = (errors_divided, last_round_removed, other_system_everywhere)
