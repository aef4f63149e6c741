"""Which offers are refused, and which is chosen."""

from typing import Any

import pytest

from suite.cloud.offers import Limits, Offer, Wanted, chosen, ordered
from suite.errors import UsageError


def offer(price: float | None = 2.0, **changes: Any) -> Offer:
    values = {
        "cloud": "aws",
        "region": "us-east-1",
        "instance_type": "p5",
        "accelerator": "H100",
        "count": 1,
        "vcpus": 16.0,
        "memory_gib": 256.0,
        "price_per_hour": price,
        "spot_price_per_hour": None,
        "no_autodown": None,
        "catalog": {"file": "aws/vms.csv", "sha256": None, "modified_s": None},
    }
    return Offer.model_validate(values | changes)


def limits(**changes: Any) -> Limits:
    values = {"max_price_per_hour": 3.0, "max_cost": None, "run_s": 3600.0}
    return Limits(**values | changes)


def test_the_cheapest_offer_within_the_limits_is_chosen() -> None:
    offers = [
        offer(3.5),
        offer(2.5),
        offer(2.0, no_autodown="not supported"),
        offer(0),
        offer(None),
    ]
    assert chosen(offers, limits()) == offers[1]
    assert ordered(offers, limits())[-1].price_per_hour is None
    assert chosen(offers, limits(max_price_per_hour=2.4)) is None
    assert chosen([], limits()) is None


@pytest.mark.parametrize(
    ("found", "given", "reason"),
    [
        (offer(None), limits(), "its price is unknown"),
        (offer(0), limits(), "a price of 0 is no price"),
        (offer(no_autodown="x cannot end itself"), limits(), "no autodown: x cannot end itself"),
        (offer(3.01), limits(), "above --max-price 3"),
        (offer(3.0), limits(), None),
        (offer(3.0), limits(max_cost=4.99), "above --max-cost 4.99"),
        (offer(3.0), limits(max_cost=5.0), None),
        (offer(3.0), limits(max_cost=9.0, machines=2), "above --max-cost 9"),
        (offer(9.0), limits(spot=True), "its spot price is unknown"),
        (offer(9.0, spot_price_per_hour=1.0), limits(spot=True), None),
    ],
)
def test_an_offer_is_refused_with_the_first_reason(
    found: Offer, given: Limits, reason: str | None
) -> None:
    assert given.refusal(found) == reason


def test_the_cost_has_provisioning_set_up_and_the_run_of_all_machines() -> None:
    assert limits(machines=2).cost(offer(1.0)) == pytest.approx(
        2 * (900 + 1200 + 3600 + 300) / 3600
    )


@pytest.mark.parametrize(
    ("text", "shown", "slug"),
    [
        ("H100", "H100:1", "h100x1"),
        ("A100-80GB:8", "A100-80GB:8", "a100-80gbx8"),
        ("T4:2", "T4:2", "t4x2"),
    ],
)
def test_a_kind_of_gpu_has_a_count(text: str, shown: str, slug: str) -> None:
    assert (str(Wanted.of_gpu(text)), Wanted.of_gpu(text).slug) == (shown, slug)


@pytest.mark.parametrize("text", ["", "H100:0", "H100:x", ":1", "H100;rm", "a b", ".*"])
def test_what_is_no_accelerator_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no kind of GPU"):
        Wanted.of_gpu(text)


def test_a_place_is_a_kind_without_a_gpu() -> None:
    found = Wanted.at("slurm/loop_1/cheap", 2)
    assert (str(found), found.slug) == ("slurm/loop_1/cheap", "slurm-loop-1-cheap")
    both = Wanted.of_gpu("H100").model_copy(update={"infra": "aws/us-east-1"})
    assert (str(both), both.slug) == ("H100:1 at aws/us-east-1", "h100x1-aws-us-east-1")


@pytest.mark.parametrize("text", ["", "slurm/a/b/c", "slurm/a;b", "a b", "/x", "slurm//x"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no place"):
        Wanted.at(text)
