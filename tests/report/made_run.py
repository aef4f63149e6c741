"""A run's folder made by hand: everything that a report can show, without running a framework."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from suite.manifests import catalog
from suite.parity.certificates import CERTIFICATE_VERSION, Certificate
from suite.results import roofline, store
from suite.results.blocks import Block, Blocks
from suite.results.record import Epoch, Error, Memory, Parity, Record, Times
from tests.results.test_record import CLOSED, record
from tests.results.test_roofline import PEAK

CONFIGURATIONS = {  # framework, variant, track -> samples per second
    ("tensorflow", "graph", "equal"): 6000.0,
    ("pytorch", "channels_last", "tuned"): 5600.0,
    ("pytorch", "eager", "equal"): 3700.0,
    ("jax", "matmul", "tuned"): 3100.0,
    ("mxnet", "hybrid", "equal"): 3050.0,
    ("jax", "jit", "equal"): 2500.0,
}
RUNS = 4
ENVIRONMENT = {
    "dlsuite": "0.3.0",
    "python": "3.11.2",
    "cpu": "A made-up processor",
    "cpus": [0, 1],
    "memory_bytes": 2**34,
    "kernel": "6.1.0",
    "gpus": [],
    "governor": None,
    "worker": {"versions": {"numpy": "2.1.0"}, "device": {"threads": 2}},
    "lock_sha256": "1" * 64,
}


def made_run(place: Path, *, epochs: int = 3) -> Path:
    """A run of LeNet in four frameworks with 24 runs, one that crashed, and two device sets."""
    folder = store.RunFolder(place / "20261124-120000-quick")
    folder.logs.mkdir(parents=True)
    for each in [*_quick(epochs), *_scaling(), _crashed()]:
        folder.append(each)
        if each.status == "ok":
            _write_samples(folder.logs / f"{each.name}.telemetry.jsonl", each.repeat)
    (folder.logs / "keras-r0.log").write_text("first line\n<b>Killed</b> & gone\n")
    roofline.write(folder.path, PEAK)
    (folder.path / "certificates").mkdir()
    for framework, variant, track in CONFIGURATIONS:
        certificate = made_certificate(framework, variant, track)
        path = folder.path / "certificates" / f"{certificate.key}.json"
        path.write_text(json.dumps(asdict(certificate)))
    return folder.path


def _quick(epochs: int) -> Iterator[Record]:
    for (framework, variant, track), rate in CONFIGURATIONS.items():
        for repeat in range(RUNS):
            key = f"{framework}-{variant}".replace("_", "").ljust(16, "0")[:16]
            yield _run(
                framework=framework,
                variant=variant,
                track=track,
                trial_id=f"{framework}-{variant}-{track}",
                repeat=repeat,
                samples_per_s=rate * (1 + 0.03 * math.sin(repeat + rate)),
                parity=Parity(proven=True, steps=10, certificate=key, closing=CLOSED),
                epochs=_epochs(epochs, rate) if repeat == 0 else (),
            )


def _run(**changes: object) -> Record:
    rate = changes["samples_per_s"]
    assert isinstance(rate, float)
    disturbed = changes["framework"] == "mxnet" and changes["repeat"] == 1
    values: dict[str, object] = {
        "run_id": "20261124-120000-quick",
        "framework_version": "1.2.3",
        "runtime": catalog.runtime_settings(str(changes["framework"]), "equal", "cpu"),
        "environment": ENVIRONMENT,
        "flops_per_sample": 5_000_000,
        "bytes_per_sample": 100_000,
        "steady": True,
        "blocks": _blocks(rate, disturbed=disturbed),
        "times": Times(first_step_s=0.5, total_s=9.0),
        "memory": Memory(host_rss_peak_bytes=700 * 2**20),
    }
    return record(**values | changes)


def _blocks(rate: float, *, disturbed: bool) -> Blocks:
    """Four blocks of warm-up and eight timed ones; the last is disturbed where `disturbed`."""
    found = []
    for number in range(12):
        warmup = number < 4
        of_block = rate * (0.6 + 0.1 * number if warmup else 1 + 0.02 * math.sin(number))
        found.append(
            Block(
                warmup=warmup,
                monotonic_ns=(number + 1) * 100_000_000,
                steps=10,
                duration_s=0.1,
                samples_per_s=of_block,
                step=10 * number + 10,
                loss=2.0 / (number + 1),
                disturbed=disturbed and number == 11,
            )
        )
    return Blocks.of(found)


def _epochs(number: int, rate: float) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(
            epoch=epoch,
            duration_s=60_000 / rate,
            train_loss=0.5 / epoch,
            train_accuracy=1 - 0.2 / epoch,
            test_loss=0.4 / epoch,
            test_accuracy=1 - 0.15 / epoch,
        )
        for epoch in range(1, number + 1)
    )


def _scaling() -> Iterator[Record]:
    """PyTorch on one and on two devices."""
    for device, batch_size, rate in (("cpu:1", 64, 1900.0), ("cpu:2", 64, 3200.0)):
        for repeat in range(RUNS):
            yield _run(
                framework="pytorch",
                trial_id=f"pytorch-{device.replace(':', '')}",
                device=device,
                cpu_parts=2,
                batch_size=batch_size,
                repeat=repeat,
                samples_per_s=rate * (1 + 0.01 * repeat),
            )


def _crashed() -> Record:
    error = Error(error_class="WorkerCrashed", message="the worker was killed", hint="see its log")
    return record(
        framework="keras",
        variant="tensorflow",
        trial_id="keras",
        status="failed",
        error=error,
        parity=Parity(proven=False),
        environment=ENVIRONMENT,
        log="logs/keras-r0.log",
    )


def made_certificate(framework: str, variant: str, track: str) -> Certificate:
    """A proven certificate of ten steps, with a wider tolerance of the loss."""
    key = f"{framework}-{variant}".replace("_", "").ljust(16, "0")[:16]
    tensors = ["logits", "loss", *(f"gradients layer{number}" for number in range(8))]
    errors = [
        {name: 1e-7 * (1 + step) * (1 + place) for place, name in enumerate(tensors)}
        for step in range(10)
    ]
    return Certificate(
        version=CERTIFICATE_VERSION,
        key=key,
        framework=framework,
        variant=variant,
        track=track,
        model="lenet",
        proven=True,
        reason=None,
        tolerance=1e-4,
        worst={"logits": 1e-6},
        share=0.1,
        steps=10,
        errors=errors,
        raised=[{"loss": 1e-3}] * 10,
        zeros=[],
        reference_error=1e-15,
        of={},
    )


def _write_samples(path: Path, repeat: int) -> None:
    lines = [
        {
            "monotonic_ns": number * 50_000_000,
            "rss_bytes": (300 + 20 * min(number, 20) + repeat) * 2**20,
            "cpu_s": number * 0.09,
        }
        for number in range(40)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
