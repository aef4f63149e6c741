"""How a choice of GPUs is read and how an engine is asked for them."""

import pytest

from suite.engines.gpus import Gpus, gives_gpus, parse, request, visible
from suite.errors import EngineError, UsageError

CDI = {
    "DiscoveredDevices": [
        {"Source": "cdi", "ID": f"nvidia.com/gpu={each}"} for each in ("0", "1", "all", "GPU-7a")
    ]
}


def test_a_choice_is_a_number_all_or_ids() -> None:
    assert parse("0") is None
    assert parse("2") == Gpus(count=2)
    assert parse("all") == Gpus(count=-1)
    assert parse("0,2") == parse("device=0,2") == Gpus(ids=("0", "2"))
    assert parse("device=1") == Gpus(ids=("1",))
    assert parse("GPU-7a,GPU-8b") == Gpus(ids=("GPU-7a", "GPU-8b"))


@pytest.mark.parametrize("text", ["", "two", "0,", "-1", "device="])
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--gpus"):
        parse(text)


def test_an_engine_without_cdi_is_asked_by_driver() -> None:
    assert request(Gpus(count=-1), {}) == {
        "driver": "",
        "capabilities": [["gpu", "compute", "utility"]],
        "count": -1,
    }
    assert request(Gpus(ids=("0", "GPU-7a")), {})["device_ids"] == ["0", "GPU-7a"]


def test_an_engine_with_cdi_devices_is_asked_for_them_by_name() -> None:
    def names(gpus: Gpus) -> list[str]:
        asked = request(gpus, CDI)
        assert asked["driver"] == "cdi"
        return [name.removeprefix("nvidia.com/gpu=") for name in asked["device_ids"]]

    assert names(Gpus(count=-1)) == ["all"]
    assert names(Gpus(count=1)) == ["0"]
    assert names(Gpus(ids=("1", "GPU-7a"))) == ["1", "GPU-7a"]


def test_whether_an_engine_says_that_it_gives_gpus() -> None:
    assert gives_gpus(CDI) and gives_gpus({"Runtimes": {"nvidia": {}}})
    assert not gives_gpus({"Runtimes": {"runc": {}}})


THERE = [{"uuid": f"GPU-{letter}", "name": "H100"} for letter in "abc"]


@pytest.mark.parametrize(
    ("gpus", "seen"),
    [
        (None, ""),
        (Gpus(count=2), "ab"),
        (Gpus(count=-1), "abc"),
        (Gpus(ids=("2", "0")), "ca"),
        (Gpus(ids=("GPU-b",)), "b"),
    ],
)
def test_a_process_sees_the_gpus_that_were_chosen(gpus: Gpus | None, seen: str) -> None:
    assert [gpu["uuid"] for gpu in visible(gpus, THERE)] == [f"GPU-{letter}" for letter in seen]


@pytest.mark.parametrize(
    ("gpus", "missing"),
    [(Gpus(count=4), "4"), (Gpus(ids=("0", "3")), "3"), (Gpus(ids=("GPU-x",)), "GPU-x")],
)
def test_gpus_that_the_machine_has_not_are_named_beside_those_it_has(
    gpus: Gpus, missing: str
) -> None:
    with pytest.raises(EngineError, match=f"--gpus {missing}: .*: 0 H100, 1 H100, 2 H100"):
        visible(gpus, THERE)
    with pytest.raises(EngineError, match="shows here are: none"):
        visible(Gpus(count=-1), [])
