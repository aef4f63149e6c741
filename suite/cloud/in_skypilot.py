"""Run by SkyPilot's own Python: prints the offers of a kind of machine as JSON.

The first argument is a JSON object with `accelerator`, `count`, `infra`, `cpus`, `clouds` and
`region`.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sky
from sky import catalog
from sky.catalog import common
from sky.clouds import CloudImplementationFeatures
from sky.utils.resources_utils import make_launchables_for_valid_region_zones


def main(request: dict[str, Any]) -> None:
    offers = [*(at_place(request) if request["infra"] else in_catalogs(request))]
    print(json.dumps({"version": sky.__version__, "offers": offers}))


def in_catalogs(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The machines of all providers with this accelerator."""
    found = catalog.list_accelerators(
        gpus_only=True,
        name_filter=f"^{request['accelerator']}$",
        region_filter=request["region"],
        quantity_filter=request["count"],
        clouds=request["clouds"] or None,
        case_sensitive=False,
    )
    for each in (each for group in found.values() for each in group):
        resources = sky.Resources(infra=each.cloud.lower(), instance_type=each.instance_type)
        yield {
            "cloud": each.cloud.lower(),
            "region": each.region,
            "zone": None,
            "instance_type": each.instance_type,
            "accelerator": each.accelerator_name,
            "count": int(each.accelerator_count),
            "vcpus": number(each.cpu_count),
            "memory_gib": number(each.memory),
            "price_per_hour": number(each.price),
            "spot_price_per_hour": number(each.spot_price),
            "no_autodown": next(no_autodown(resources), None),
            "catalog": list_of(each.cloud.lower()),
        }


def at_place(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What SkyPilot would launch in one place, as a partition of a Slurm cluster."""
    gpus = f"{request['accelerator']}:{request['count']}" if request["accelerator"] else None
    cpus = str(request["cpus"]) if request["cpus"] else None
    wanted = sky.Resources(infra=request["infra"], accelerators=gpus, cpus=cpus)
    found = wanted.cloud.get_feasible_launchable_resources(wanted).resources_list
    for each in (each for one in found for each in make_launchables_for_valid_region_zones(one)):
        cloud = str(each.cloud).lower()
        vcpus, memory_gib = each.cloud.get_vcpus_mem_from_instance_type(each.instance_type)
        yield {
            "cloud": cloud,
            "region": each.region,
            "zone": each.zone,
            "instance_type": each.instance_type,
            "accelerator": request["accelerator"],
            "count": request["count"],
            "vcpus": vcpus,
            "memory_gib": memory_gib or None,
            "price_per_hour": each.get_cost(3600),
            "spot_price_per_hour": None,
            "no_autodown": next(no_autodown(each), None),
            "catalog": list_of(cloud),
        }


def list_of(cloud: str) -> dict[str, Any]:
    """The file of the provider's list prices; on a Slurm cluster they are in the configuration."""
    path = Path(common.get_catalog_path(f"{cloud}/vms.csv"))
    if not path.exists():
        path = Path("~/.sky/config.yaml").expanduser()
    return {
        "file": f"{path.parent.name}/{path.name}",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None,
        "modified_s": path.stat().st_mtime if path.exists() else None,
    }


def number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def no_autodown(resources: Any) -> Iterator[str]:
    """Why the provider cannot end the machine by itself; nothing where it can."""
    feature = CloudImplementationFeatures.AUTODOWN
    try:
        resources.cloud.check_features_are_supported(resources, {feature})
    except sky.exceptions.NotSupportedError as error:
        yield str(error).splitlines()[0]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
