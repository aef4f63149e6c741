"""Run by SkyPilot's own Python: prints the offers of machines with an accelerator as JSON.

The first argument is a JSON object with `accelerator`, `count`, `clouds`, and `region`.
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
from sky.utils.registry import CLOUD_REGISTRY


def main(request: dict[str, Any]) -> None:
    found = catalog.list_accelerators(
        gpus_only=True,
        name_filter=f"^{request['accelerator']}$",
        region_filter=request["region"],
        quantity_filter=request["count"],
        clouds=request["clouds"] or None,
        case_sensitive=False,
    )
    offers = [offer(each) for group in found.values() for each in group]
    print(json.dumps({"version": sky.__version__, "offers": offers}))


def offer(found: Any) -> dict[str, Any]:
    path = Path(common.get_catalog_path(f"{found.cloud.lower()}/vms.csv"))
    return {
        "cloud": found.cloud.lower(),
        "region": found.region,
        "instance_type": found.instance_type,
        "accelerator": found.accelerator_name,
        "count": int(found.accelerator_count),
        "vcpus": number(found.cpu_count),
        "memory_gib": number(found.memory),
        "price_per_hour": number(found.price),
        "spot_price_per_hour": number(found.spot_price),
        "no_autodown": next(no_autodown(found), None),
        "catalog": {
            "file": f"{path.parent.name}/{path.name}",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None,
            "modified_s": path.stat().st_mtime if path.exists() else None,
        },
    }


def number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def no_autodown(found: Any) -> Iterator[str]:
    """Why the provider cannot end the machine by itself; nothing where it can."""
    cloud = CLOUD_REGISTRY.from_str(found.cloud.lower())
    resources = sky.Resources(infra=found.cloud.lower(), instance_type=found.instance_type)
    try:
        cloud.check_features_are_supported(resources, {CloudImplementationFeatures.AUTODOWN})
    except sky.exceptions.NotSupportedError as error:
        yield str(error).splitlines()[0]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
