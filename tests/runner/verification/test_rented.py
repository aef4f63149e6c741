"""The offer of a rented machine beside its records."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from suite.results.rental import Rental
from suite.runner.verification import rented
from tests.results.test_rental import VALUES


def record(number: int, **changes: Any) -> Any:
    values = Rental(**{**VALUES, **changes}).model_dump(mode="json")
    return SimpleNamespace(name=f"run-r{number}", environment={"rental": values})


def found(folder: Path, *records: Any) -> list[str]:
    return [str(each) for each in rented.check(folder, records)]


def offer(folder: Path, **changes: Any) -> None:
    (folder / "cloud").mkdir(exist_ok=True)
    text = Rental(**{**VALUES, **changes}).model_dump_json()
    (folder / rented.OFFER).write_text(text)


def test_records_of_one_machine_with_its_offer_are_right(tmp_path: Path) -> None:
    assert found(tmp_path, record(0), record(1)) == []
    offer(tmp_path)
    assert found(tmp_path, record(0), record(1)) == []
    own = SimpleNamespace(name="run-r0", environment={})
    assert found(tmp_path / "other", own) == []


def test_another_price_in_the_offer_is_found(tmp_path: Path) -> None:
    offer(tmp_path, price_per_hour=1.0)
    (line,) = found(tmp_path, record(0))
    assert "price_per_hour" in line and "3.0" in line


def test_a_resumed_run_may_have_another_price_but_no_other_machine(tmp_path: Path) -> None:
    offer(tmp_path, price_per_hour=2.5)
    assert found(tmp_path, record(0), record(1, price_per_hour=2.5)) == []
    for change in ({"machine_type": "g5"}, {"region": "eu"}, {"spot": True}):
        assert found(tmp_path, record(0), record(1, price_per_hour=2.5, **change))
    own = SimpleNamespace(name="run-r1", environment={})
    assert found(tmp_path, record(0, price_per_hour=2.5), own)


def test_an_offer_that_is_none_is_found(tmp_path: Path) -> None:
    (tmp_path / "cloud").mkdir()
    (tmp_path / rented.OFFER).write_text(json.dumps({"price_per_hour": 1}))
    assert any("an offer" in line for line in found(tmp_path, record(0)))
