"""The command line with containers: the real engine, real images and real frameworks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from suite.engines.docker.client import Daemon
from suite.results import store
from tests.cli.test_cli import DLSUITE, cells, dlsuite, refused, short_suite
from tests.conftest import rest_in_verify

pytestmark = pytest.mark.docker
HERE = ("pytorch", "jax")  # test_cli.py has the others of the quick suite
CONTAINERS = {"DLSUITE_ENGINE": "docker"}


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of short runs of two frameworks, interleaved, in containers that are kept."""
    folder = tmp_path_factory.mktemp("quick-docker")
    short = short_suite(folder)
    chosen = [f"--framework={name}" for name in HERE]
    options = (*chosen, "--repeats", "1", "--interleave", "--proof-steps", "1", "--keep")
    reply = dlsuite("run", short, *options, folder=folder, **CONTAINERS)
    assert reply.returncode == 0, reply.stderr
    yield folder
    clean = dlsuite("clean", folder=folder)  # also where the test of `clean` is not selected
    assert clean.returncode == 0, clean.stderr


@pytest.mark.verify
def test_every_framework_of_the_quick_suite_is_proven_in_its_image(tmp_path: Path) -> None:
    short = short_suite(tmp_path)
    options = ("--repeats", "1", "--proof-steps", "1")
    reply = dlsuite("run", short, *options, folder=tmp_path, **CONTAINERS)
    assert reply.returncode == 0, reply.stderr
    records = store.read(tmp_path / "results/latest")
    assert {each.framework for each in records} == {"pytorch", "tensorflow", "jax", "mxnet"}
    assert all(each.status == "ok" and each.parity.proven for each in records)
    assert len({each.image_id for each in records}) == 4


def test_the_quick_suite_proves_and_measures_frameworks_in_their_images(quick_run: Path) -> None:
    records = [
        json.loads(path.read_text()) for path in (quick_run / "results/latest").glob("*-r*.json")
    ]
    assert {each["framework"] for each in records} == set(HERE)
    for record in records:
        assert (record["status"], record["engine"]) == ("ok", "docker")
        assert record["parity"]["proven"] and record["image_id"].startswith("sha256:")
        assert record["environment"]["limits"]["pids"] == 4096
        assert record["times"]["engine_s"] > 0
        assert record["samples_per_s"] > 0 and record["interleaved"] == len(HERE)
        disturbed_s = sum(
            duration_s
            for duration_s, disturbed, warmup in zip(
                *(record["blocks"][name] for name in ("duration_s", "disturbed", "warmup")),
                strict=True,
            )
            if disturbed and not warmup
        )
        # Interleaved runs use all of their time.
        assert record["times"]["measured_s"] + disturbed_s >= 2
    assert len({record["image_id"] for record in records}) == len(HERE)


def test_clean_removes_the_leftovers_of_a_kept_run_but_not_the_data(
    tmp_path: Path, quick_run: Path
) -> None:
    name = (quick_run / "results" / "latest").resolve().name
    with closing(Daemon()) as daemon:

        def kept() -> list[str]:
            return [
                each.name for each in daemon.containers({"dlsuite": "trial"}) if name in each.name
            ]

        assert len(kept()) == len(HERE)
        reply = dlsuite("clean", folder=tmp_path)
        assert reply.returncode == 0 and reply.stdout.startswith("removed ")
        assert kept() == []
        assert daemon.volumes({"dlsuite": "data"})  # the cache of datasets stays


@pytest.mark.verify
def test_torch_compile_finds_its_compiler_in_the_image(tmp_path: Path, quick_run: Path) -> None:
    """`make parity-small` proves the compiled models."""
    code = "import torch; print(torch.compile(lambda x: 2 * x + 1)(torch.ones(3)).tolist())"
    reply = dlsuite("shell", "pytorch", "--", "python", "-c", code, folder=tmp_path)
    assert reply.returncode == 0, reply.stderr
    assert reply.stdout.strip() == "[3.0, 3.0, 3.0]"


@pytest.mark.verify
def test_a_resume_after_a_kill_removes_the_container_and_repeats_the_run(
    tmp_path: Path, quick_run: Path
) -> None:
    """dlsuite is killed in its first run, and the worker's container keeps running."""
    options = ("--framework", "mxnet", "--repeats", "2", "--proof-steps", "1", "--engine", "docker")
    with subprocess.Popen(
        [DLSUITE, "run", short_suite(tmp_path), *options],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    ) as process:
        latest, end = tmp_path / "results" / "latest", time.monotonic() + 400
        while not list(latest.glob("logs/*-r0.log")):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.1)
        with closing(Daemon()) as daemon:
            container = next(
                each
                for each in daemon.containers({"dlsuite": "trial"})
                if latest.resolve().name in each.name
            )
            while b"started" not in container.output()[0]:
                time.sleep(0.1)
            process.send_signal(signal.SIGKILL)
            process.wait()
            state = container.state()
            assert state is not None and state.status == "running"
            killed_ns = time.monotonic_ns()
            early = dlsuite("report", folder=tmp_path)
            assert early.returncode == 6 and "has no records" in early.stderr
            reply = dlsuite("resume", folder=tmp_path, **CONTAINERS)
            assert reply.returncode == 0, reply.stderr
            assert container.state() is None
    assert len(list(latest.glob("*-r*.json"))) == 2
    events = next(latest.glob("logs/*-r0.events.jsonl")).read_text().splitlines()
    assert json.loads(events[0])["monotonic_ns"] > killed_ns
    clean = dlsuite("clean", folder=tmp_path)
    assert clean.returncode == 0, clean.stderr


def test_missing_gpus_are_refused_before_anything_starts(tmp_path: Path, quick_run: Path) -> None:
    with closing(Daemon()) as daemon:
        if "nvidia" in daemon.info.get("Runtimes", {}):
            pytest.skip("this engine has GPUs")
    message, command = "engine cannot provide the requested GPUs", ("run", "quick", "--gpus", "all")
    refused(5, message, *command, folder=tmp_path, **CONTAINERS)
    assert list((tmp_path / "results").iterdir()) == []


def test_a_shell_has_the_data_and_the_worker(tmp_path: Path, quick_run: Path) -> None:
    module = "suite.worker.frameworks.mxnet.session"
    code = f"import os, {module} as m; print(m.version(), os.listdir('/data'))"
    reply = dlsuite("shell", "mxnet", "--", "python", "-c", code, folder=tmp_path)
    assert reply.returncode == 0, reply.stderr
    assert reply.stdout.startswith("1.9.1") and "train_inputs.npy" in reply.stdout
    assert dlsuite("shell", "mxnet", "--", "sh", "-c", "exit 3", folder=tmp_path).returncode == 3


def test_a_shell_on_a_terminal_is_interactive(tmp_path: Path, quick_run: Path) -> None:
    master, slave = os.openpty()
    with subprocess.Popen(
        [DLSUITE, "shell", "mxnet"], cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        os.write(master, b"test -t 0 && echo a-$((40 + 2))-terminal; exit\n")
        shown = b""
        while process.poll() is None or b"terminal\r" not in shown:
            try:
                shown += os.read(master, 4096)
            except OSError:
                break
    os.close(master)
    assert b"a-42-terminal" in shown and process.returncode == 0


@pytest.mark.parametrize("options", rest_in_verify(["-f", "mxnet"], []))
def test_images_can_be_listed_and_verified(
    options: list[str], tmp_path: Path, quick_run: Path
) -> None:
    listed = dlsuite("images", "list", folder=tmp_path)
    assert listed.returncode == 0 and listed.stdout.count("MB") >= 4
    verified = dlsuite("images", "verify", *options, folder=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    built = [row for row in cells(listed.stdout) if ":cpu" in row[0] and row[-1] == "current"]
    assert verified.stdout.count(": ok") == (1 if options else len(built)) > 0


def test_doctor_shows_the_engine_and_the_images(tmp_path: Path, quick_run: Path) -> None:
    reply = dlsuite("doctor", folder=tmp_path)
    assert reply.returncode == 0
    rows = cells(reply.stdout)
    assert any(row[0] == "ok" and "Docker engine" in row[1] for row in rows)
    assert ["ok", "image dlsuite/mxnet:cpu: current"] in rows
