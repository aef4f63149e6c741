"""The table of `dlsuite check-gpu`."""

from suite.manifests import catalog
from suite.report import check_table
from suite.results.record import Error, Memory, Parity, Record
from suite.results.roofline import peak_of
from suite.results.telemetry import Energy, Gpu, Telemetry
from tests.results.test_record import PROVEN, record

TF32 = catalog.runtime_settings("pytorch", "tuned", "cuda")
MIB = 2**20


def on_gpu(**changes: object) -> Record:
    return record(**{"suite": "check_gpu", "device": "cuda", **changes})


ENERGY = Energy(
    source="counter",
    gross_j=50.0,
    net_j=None,
    gross_j_per_sample=0.0033,
    net_j_per_sample=None,
    idle_power_w=None,
)
GPU = Gpu(
    uuid="GPU-1",
    used_peak_bytes=612 * MIB,
    used_mean_bytes=None,
    utilisation=None,
    sm_clock_mhz=None,
    sm_clock_min_mhz=None,
    temperature_max_c=None,
    throttled=None,
    other_processes=None,
    energy=ENERGY,
)
TELEMETRY = Telemetry(
    samples=9,
    rss_peak_bytes=None,
    cores=None,
    other_cores=None,
    steal_cores=None,
    sampler_cores=None,
    cpu_energy=None,
    gpu=GPU,
)
RECORDS = [
    on_gpu(memory=Memory(device_reserved_bytes=99 * MIB), telemetry=TELEMETRY),
    on_gpu(runtime=TF32, parity=Parity(proven=False, reason="the logits are off")),
    on_gpu(batch_size=16384, status="oom", error=Error(error_class="OutOfMemory", message="full")),
    on_gpu(
        device="cuda:2", status="failed", error=Error(error_class="NcclError", message="no link")
    ),
    on_gpu(
        framework="cudnn",
        status="skipped",
        error=Error(error_class="Unsupported", message="only inference"),
    ),
    on_gpu(
        framework="keras",
        variant="jax",
        status="skipped",
        error=Error(error_class="TimeLimit", message="the limit of 10m was reached before it"),
    ),
]
PEAK = peak_of("cuda", {"pytorch": {"matmul_float32": 5.2e13, "copy": 4e12}})


def cells() -> dict[str, list[str]]:
    rows = check_table.render(RECORDS, 160, PEAK).rows
    return {row["check"]: [row[name] for name in row if name != "check"] for row in rows}


def test_a_row_for_each_check_and_a_column_for_each_framework() -> None:
    found = cells()
    assert found["product, float32"] == ["52.0 TFLOP/s", "-", "-"]
    assert found["lenet, training, float32"] == ["proven", "not reached", "-"]
    assert list(found)[1:4] == [
        "lenet, training, float32",
        "lenet, training, TF32",
        "lenet, training, float32, 2 GPUs",
    ]
    assert found["lenet, training, TF32"][0] == "not proven"
    assert found["out of memory, recognized"][0] == "yes"
    assert found["lenet, training, float32, 2 GPUs"][0] == "failed"
    assert found["memory: allocator / NVML"][0] == "99 / 612 MiB"
    assert found["energy of a sample"][0] == "0.0033 J (counter)"


def test_the_reasons_follow_but_not_of_what_is_expected() -> None:
    assert PROVEN.reason is None
    assert [*check_table.problems(RECORDS)] == [
        "not reached: the limit of 10m was reached before it; --max-time allows more",
        "the logits are off (pytorch, lenet, training, TF32)",
        "no link (pytorch, lenet, training, float32, 2 GPUs)",
    ]
