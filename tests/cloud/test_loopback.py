"""`dlsuite cloud` with the real SkyPilot, on a Slurm cluster of this machine.

The tests have an order: a machine that one of them leaves would be found by the next.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.cloud import images as of_cloud
from suite.cloud.task import IDLE_MINUTES
from suite.engines.docker import registry
from suite.engines.docker.images import Images
from suite.engines.recipe import BASE_VARIABLE
from suite.paths import REPOSITORY, home
from suite.results import rental, store
from tests.cloud.loopback import CLUSTER, Loopback
from tests.engines.docker.test_registry import address, images

__all__ = ["address", "images"]
pytestmark = [pytest.mark.slurm, pytest.mark.verify, pytest.mark.xdist_group("loopback")]
DLSUITE = (sys.executable, "-c", "from suite.cli.main import main; main()")
OPTIONS = ("--", "--framework", "pytorch", "--engine", "venv", "--repeats")
WAIT_S = 900
LONG = pytest.mark.skipif(
    not os.environ.get("DLSUITE_LONG_CLOUD_TESTS"), reason="takes minutes: make verify-cloud"
)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    sky = os.environ.get("DLSUITE_SKYPILOT")
    if not sky:
        pytest.skip("DLSUITE_SKYPILOT, the environment of SkyPilot, is not set")
    programs = ("slurmctld", "sshd", "rsync", "unshare")
    missing = [each for each in programs if shutil.which(each) is None]
    if missing or os.geteuid():
        pytest.skip(f"needs root and {', '.join(missing)}")
    made = Loopback(tmp_path_factory.mktemp("loop"), Path(sky))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def nothing_left(loop: Loopback) -> Iterator[None]:
    """After each test no machine, no job and no open journal is left, for the next one either."""
    yield
    try:
        assert loop.jobs() == []
        listed = sky(loop, "status", "--refresh", "--output", "json")
        assert json.loads(listed[listed.index("[") :]) == []
        assert "no machine that dlsuite rented is alive" in cloud(loop, "status").stdout
    finally:
        cloud(loop, "down", "--all")


def name(partition: str) -> str:
    return f"dlsuite-quick-slurm-{CLUSTER}-{partition}"


def sky(loop: Loopback, *arguments: str) -> str:
    return loop.run(str(loop.sky / "bin/sky"), *arguments).stdout


def variables(loop: Loopback) -> dict[str, str]:
    return {"DLSUITE_HOME": str(loop.folder / "home"), "PYTHONPATH": str(REPOSITORY)}


def cloud(loop: Loopback, *arguments: str) -> subprocess.CompletedProcess[str]:
    if arguments[0] in ("run", "resume"):
        prepare(loop)
    return loop.run(*DLSUITE, "cloud", *arguments, timeout=900, **variables(loop))


def machines(*partitions: str) -> list[str]:
    """The arguments of `cloud run` up to its `--`; the machine has the data of this one."""
    places = [part for each in partitions for part in ("--infra", f"slurm/{CLUSTER}/{each}")]
    limits = ("--cpus", "2", "--max-price", "1", "--max-cost", "1", "--max-time", "10m", "--yes")
    return ["run", "quick", *places, *limits, "--env", f"DLSUITE_HOME={home()}"]


def rent(*partitions: str, repeats: int = 1) -> list[str]:
    """The arguments of `cloud run` for the environments of this machine."""
    return [*machines(*partitions), *OPTIONS, str(repeats)]


def prepare(loop: Loopback) -> None:
    """The end of a machine removes what SkyPilot would download for the next one."""
    for partition in ("cheap", "dear"):
        loop.prepare(name(partition))


def begun(loop: Loopback, *partitions: str, repeats: int) -> subprocess.Popen[str]:
    prepare(loop)
    return loop.begin(*DLSUITE, "cloud", *rent(*partitions, repeats=repeats), **variables(loop))


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.5)


def journals(loop: Loopback) -> list[list[str]]:
    """The events of each machine, the oldest first."""
    files = sorted((loop.folder / "home/cloud").glob("*/events.jsonl"))
    return [[json.loads(line)["event"] for line in each.read_text().splitlines()] for each in files]


def log(loop: Loopback) -> str:
    """What SkyPilot printed for the newest machine."""
    files = sorted((loop.folder / "home/cloud").glob("*/provision.log"))
    return files[-1].read_text(errors="replace") if files else ""


def test_two_types_of_machines_are_side_by_side(loop: Loopback) -> None:
    done = cloud(loop, *rent("cheap", "dear"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gone, about 0.0" in done.stdout
    for place, price in (("cheap", "0.08"), ("dear", "0.8")):
        assert f"2CPU--0GB at slurm/{CLUSTER}/{place}" in done.stdout and price in done.stdout
    runs = sorted((loop.folder / "results").glob("2*-quick"))
    assert len(runs) == 2
    for run in runs:
        assert {each.name for each in (run / "cloud").iterdir()} == {
            *("task.yaml", "offer.json", "events.jsonl", "provision.log"),
        }
        verified = loop.run(*DLSUITE, "verify", str(run), **variables(loop))
        assert verified.returncode == 0, verified.stdout


@LONG
@pytest.mark.docker
def test_a_machine_pulls_its_images_from_a_registry(
    loop: Loopback, images: Images, address: str
) -> None:
    of_runs = ("--framework", "pytorch", "--repeats", "1")
    base = os.environ.get(BASE_VARIABLE)
    settings = {BASE_VARIABLE: base} if base else {}
    recipes = of_cloud.needed("quick", of_runs, gpus=0, variables=settings)
    pushed = {each.framework: registry.push(images, each, address, print) for each in recipes}
    for each in recipes:
        images.daemon.remove_tag(each.exact_tag)
        images.daemon.remove_tag(each.tag)
    given = [part for each in settings.items() for part in ("--env", "=".join(each))]
    options = (*given, "--images", address, "--", *of_runs)
    done = cloud(loop, *machines("cheap"), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "building its image" not in log(loop)
    [record] = store.read_all(sorted((loop.folder / "results").glob("2*-quick"))[-1])
    assert record.image_id == pushed["pytorch"].image_id
    rented = rental.of_environment(record.environment)
    assert rented and rented.images == address


@LONG
def test_a_job_that_fails_ends_its_machine(loop: Loopback) -> None:
    done = cloud(loop, *rent("cheap")[:-3], "venv", "--model", "nosuch")
    assert done.returncode == 7 and "exit code 100" in done.stderr, done.stdout + done.stderr
    assert journals(loop)[-1][-1] == "gone"


@LONG
@pytest.mark.parametrize("phase", ["launch", "up"])
def test_a_signal_in_each_phase_ends_the_machine(loop: Loopback, phase: str) -> None:
    before = len(journals(loop))
    client = begun(loop, "cheap", repeats=30)
    wait_for(lambda: len(journals(loop)) > before and phase in journals(loop)[-1])
    if phase == "launch":
        wait_for(lambda: loop.jobs() != [])
    client.send_signal(signal.SIGTERM if phase == "launch" else signal.SIGINT)
    output, _ = client.communicate(timeout=WAIT_S)
    assert client.returncode == 130, output
    assert journals(loop)[-1][-1] == "gone"


@LONG
def test_a_killed_client_leaves_a_machine_that_is_named_and_ended(loop: Loopback) -> None:
    client = begun(loop, "cheap", repeats=30)
    wait_for(lambda: "ok" in log(loop) and "run 1/30" in log(loop))
    client.kill()
    client.wait()
    shown = cloud(loop, "status")
    assert name("cheap") in shown.stdout and "has ended" in shown.stdout
    assert "may be alive" in shown.stderr and loop.jobs() != []
    refused = cloud(loop, *rent("cheap"))
    assert refused.returncode == 10
    done = cloud(loop, "down", name("cheap"))
    assert done.returncode == 0 and "no machine is left" in done.stdout, done.stderr


@LONG
def test_a_machine_ends_itself_where_the_client_and_the_server_of_skypilot_are_dead(
    loop: Loopback,
) -> None:
    client = begun(loop, "cheap", repeats=1)
    wait_for(lambda: "run 1/1 ok" in log(loop))
    client.kill()
    client.wait()
    sky(loop, "api", "stop")
    ended = time.monotonic()
    wait_for(lambda: loop.jobs() == [])
    assert time.monotonic() - ended > 60 * IDLE_MINUTES - 60  # not at once, by somebody else
    assert "may be alive" in cloud(loop, "status").stderr
    done = cloud(loop, "down", name("cheap"))
    assert done.returncode == 0 and "no machine is left" in done.stdout, done.stderr


@LONG
def test_a_machine_that_is_taken_away_is_resumed(loop: Loopback) -> None:
    client = begun(loop, "cheap", repeats=12)
    wait_for(lambda: "run 3/12 ok" in log(loop))
    assert cloud(loop, "pull", name("cheap")).returncode == 0
    loop.run("scancel", "--user=root")
    output, _ = client.communicate(timeout=WAIT_S)
    assert client.returncode == 7, output
    unfinished = sorted((loop.folder / "results").glob("2*-quick"))[-1]
    some = len(list(unfinished.glob("pytorch-*-r*.json")))
    assert 3 <= some < 12
    done = cloud(loop, "resume", name("cheap"), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(unfinished.glob("pytorch-*-r*.json"))) == 12
