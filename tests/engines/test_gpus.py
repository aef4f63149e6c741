"""How the option --gpus is read, and how GPUs are requested from an engine."""

import pytest

from suite.engines.gpus import Gpus, gives_gpus, parse, requests, visible
from suite.errors import EngineError, UsageError

CDI = {
    "DiscoveredDevices": [
        {"Source": "cdi", "ID": f"nvidia.com/gpu={name}"} for name in ("0", "1", "all", "GPU-7a")
    ]
}
PRESENT = [{"uuid": f"GPU-{letter}", "name": "H100"} for letter in "abc"]


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_the_option_is_a_number_all_or_ids() -> None:
    assert parse("0") is None
    assert parse("2") == Gpus(count=2)
    assert parse("all") == Gpus(count=-1)
    assert parse("0,2") == parse("device=0,2") == Gpus(ids=("0", "2"))
    assert parse("device=1") == Gpus(ids=("1",))
    assert parse("GPU-7a,GPU-8b") == Gpus(ids=("GPU-7a", "GPU-8b"))


@pytest.mark.parametrize("text", ["", "two", "0,", "-1", "device="])
def test_an_invalid_option_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--gpus"):
        parse(text)


def test_gpus_are_requested_by_driver_from_an_engine_without_cdi() -> None:
    assert requests(Gpus(count=-1), {}) == [
        {"driver": "", "capabilities": [["gpu", "compute", "utility"]], "count": -1}
    ]
    assert requests(Gpus(ids=("0", "GPU-7a")), {})[0]["device_ids"] == ["0", "GPU-7a"]


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        (Gpus(count=-1), ["all"]),
        (Gpus(count=2), ["0", "1"]),
        (Gpus(ids=("1", "GPU-7a")), ["1", "GPU-7a"]),
    ],
)
def test_an_engine_that_knows_cdi_and_lists_nothing_is_asked_by_driver_then_by_name(
    gpus: Gpus, names: list[str]
) -> None:
    """Docker 25 to 28.1."""
    by_driver, by_name = requests(gpus, {"CDISpecDirs": ["/etc/cdi"]})
    assert by_driver["driver"] == "" and by_name["driver"] == "cdi"
    assert by_name["device_ids"] == [f"nvidia.com/gpu={name}" for name in names]


def test_gpus_are_requested_by_name_from_an_engine_with_cdi() -> None:
    def names(gpus: Gpus) -> list[str]:
        (requested,) = requests(gpus, CDI)
        assert requested["driver"] == "cdi"
        return [name.removeprefix("nvidia.com/gpu=") for name in requested["device_ids"]]

    assert names(Gpus(count=-1)) == ["all"]
    assert names(Gpus(count=1)) == ["0"]
    assert names(Gpus(ids=("1", "GPU-7a"))) == ["1", "GPU-7a"]


def cdi(*devices: str) -> dict[str, object]:
    return {"DiscoveredDevices": [{"ID": f"nvidia.com/gpu={name}"} for name in devices]}


@pytest.mark.parametrize(
    ("devices", "gpus", "chosen"),
    [
        ([*map(str, range(12)), "all"], Gpus(count=3), ["0", "1", "2"]),
        ([*map(str, range(12)), "all"], Gpus(count=11), [*map(str, range(11))]),
        (["0:10", "0:9", "1", "all"], Gpus(count=2), ["0:9", "0:10"]),
        (["0:10", "0:9", "1", "all"], Gpus(ids=("0:10",)), ["0:10"]),
        (["gpu10", "gpu9", "all"], Gpus(count=1), ["gpu9"]),
        (["gpu10", "gpu9", "mig0:1"], Gpus(ids=("10", "0:1")), ["gpu10", "mig0:1"]),
        (["GPU-b", "GPU-a", "all"], Gpus(count=1), ["GPU-a"]),
        (["GPU-bcde", "all"], Gpus(ids=("GPU-bc",)), ["GPU-bcde"]),
        (["all"], Gpus(count=1), ["all"]),  # WSL2
        (["all"], Gpus(count=-1), ["all"]),
        (["0", "1"], Gpus(count=-1), ["0", "1"]),
    ],
)
def test_cdi_devices_are_chosen_in_the_order_of_their_numbers(
    devices: list[str], gpus: Gpus, chosen: list[str]
) -> None:
    names = requests(gpus, cdi(*devices))[0]["device_ids"]
    assert names == [f"nvidia.com/gpu={name}" for name in chosen]


def test_a_gpu_that_cdi_does_not_list_is_refused() -> None:
    with pytest.raises(EngineError, match=r"--gpus 0: .* are: all") as caught:
        requests(Gpus(ids=("0",)), cdi("all"))
    assert caught.value.hint == "--gpus all"


def test_a_slice_is_named_by_its_numbers_or_its_uuid() -> None:
    slices = [{"uuid": f"MIG-{n}", "name": "A100", "slice": f"0:{n}"} for n in range(2)]
    assert parse("0:1") == Gpus(ids=("0:1",))
    assert visible(Gpus(ids=("0:1",)), slices) == visible(Gpus(ids=("MIG-1",)), slices)
    assert visible(Gpus(count=1), slices) == slices[:1]


def test_an_engine_reports_gpus_by_cdi_or_by_its_runtimes() -> None:
    assert gives_gpus(CDI) and gives_gpus({"Runtimes": {"nvidia": {}}})
    assert gives_gpus({"Runtimes": {"runc": {}}}) is False
    assert gives_gpus({"CDISpecDirs": ["/etc/cdi"]}) is None
    assert gives_gpus({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": []}) is False


@pytest.mark.parametrize(
    ("gpus", "letters"),
    [
        (None, ""),
        (Gpus(count=2), "ab"),
        (Gpus(count=-1), "abc"),
        (Gpus(ids=("2", "0")), "ca"),
        (Gpus(ids=("GPU-b",)), "b"),
    ],
)
def test_a_process_sees_the_chosen_gpus(gpus: Gpus | None, letters: str) -> None:
    uuids = [gpu["uuid"] for gpu in visible(gpus, PRESENT)]
    assert uuids == [f"GPU-{letter}" for letter in letters]


@pytest.mark.parametrize(
    ("variable", "gpus", "letters"),
    [
        ("2", Gpus(count=1), "c"),
        ("2,0", Gpus(count=-1), "ca"),
        ("GPU-b, GPU-a", Gpus(count=2), "ba"),
        ("1,1,7,0", Gpus(count=-1), "b"),
        ("2", Gpus(ids=("0",)), "a"),  # it is named, so it is wanted
    ],
)
def test_a_number_of_gpus_is_of_those_that_the_variable_leaves(
    monkeypatch: pytest.MonkeyPatch, variable: str, gpus: Gpus, letters: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    uuids = [gpu["uuid"] for gpu in visible(gpus, PRESENT)]
    assert uuids == [f"GPU-{letter}" for letter in letters]


@pytest.mark.parametrize("variable", ["", "-1", "NoDevFiles", "9", "GPU-x,0"])
def test_a_variable_that_leaves_no_gpu_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    for gpus in (Gpus(count=1), Gpus(count=-1)):
        with pytest.raises(EngineError, match=f"VISIBLE_DEVICES={variable} leaves 0 of them"):
            visible(gpus, PRESENT)


@pytest.mark.parametrize(
    ("gpus", "missing"),
    [(Gpus(count=4), "4"), (Gpus(ids=("0", "3")), "3"), (Gpus(ids=("GPU-x",)), "GPU-x")],
)
def test_missing_gpus_are_named_with_the_present_ones(gpus: Gpus, missing: str) -> None:
    with pytest.raises(EngineError, match=f"--gpus {missing}: .*: 0 H100, 1 H100, 2 H100"):
        visible(gpus, PRESENT)
    with pytest.raises(EngineError, match="shows here are: none"):
        visible(Gpus(count=-1), [])
