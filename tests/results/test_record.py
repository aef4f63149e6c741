"""Derived values of a record, and the parity status of a trial."""

from suite.manifests import catalog
from suite.manifests.workloads import Measure, Repeats, Workload
from suite.results.record import Closing, Parity, Record, parity_of

CLOSED = Closing(proven=True, step=100, steps=2)
PROVEN = Parity(proven=True, steps=10, closing=CLOSED)
WORKLOAD = Workload.model_validate(
    {
        "model": "lenet",
        "dataset": "mnist",
        "batch_size": 64,
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
    }
)


def record(**changes: object) -> Record:
    """A record of LeNet in PyTorch; the changes are fields of the record or of its workload.

    `epochs` is the record's field, not the workload's.
    """
    names = Workload.model_fields.keys() & changes.keys() - Record.model_fields.keys()
    of_workload = {name: changes.pop(name) for name in names}
    values: dict[str, object] = {
        "run_id": "r",
        "suite": "quick",
        "trial_id": "pytorch-eager",
        "framework": "pytorch",
        "variant": "eager",
        "track": "equal",
        "runtime": catalog.runtime_settings("pytorch", "equal", "cpu"),
        # A copy is not validated: tests also use values that no suite can have yet.
        "workload": WORKLOAD.model_copy(update=of_workload),
        "flops_per_sample": 1,
        "bytes_per_sample": 1,
        "data_origin": "made here",
        "device": "cpu",
        "repeat": 0,
        "seed": 1,
        "measure": Measure(),
        "repeats": Repeats(at_least=3, at_most=3),
        "status": "ok",
        "engine": "venv",
        "environment": {"cpus": [0, 1]},
        "parity": PROVEN,
    }
    return Record.model_validate(values | changes)


def test_arithmetic_is_the_one_that_the_framework_reports() -> None:
    def on_gpu(precision: str, *, tf32: bool) -> str:
        environment = {"worker": {"device": {"tf32": tf32}}}
        return record(precision=precision, environment=environment).arithmetic

    assert on_gpu("float32", tf32=True) == "tf32"
    assert on_gpu("float32", tf32=False) == "float32"
    assert on_gpu("bf16_mixed", tf32=True) == "bfloat16"
    assert record().arithmetic == "float32"


def test_a_trial_is_proven_by_its_certificate_and_a_closing_proof() -> None:
    certified = Parity(proven=True, steps=10, certificate="c")
    closed = record(parity=certified.closed(CLOSED))
    failed = record(parity=certified.closed(Closing(proven=False, step=1, reason="loss is off")))
    plain = record(repeat=1, parity=certified)
    assert parity_of([closed, plain]).proven
    assert parity_of([failed, plain]) == failed.parity and not failed.parity.proven
    assert failed.parity.reason == "loss is off"
    unclosed = parity_of([plain])
    assert not unclosed.proven and "closing proof" in str(unclosed.reason)
    uncertified = Parity(proven=False, reason="step 3").closed(CLOSED)
    assert not uncertified.proven and uncertified.reason == "step 3"


def test_cores_are_those_of_all_ranks_on_one_machine_or_several() -> None:
    def cores(device: str, parts: int, *, separate: bool) -> int:
        environment = {"cpus": [0, 1, 2, 3], "separate_nodes": separate}
        return record(device=device, cpu_parts=parts, environment=environment).cores

    assert cores("cpu", 1, separate=False) == 4
    assert cores("cpu:1x2", 2, separate=False) == 4  # two nodes of one machine
    assert cores("cpu:1x2", 1, separate=True) == 8  # two machines
    assert cores("cpu:1x2", 2, separate=True) == 4  # beside trials of two ranks on a machine
    assert cores("cpu:2x2", 2, separate=True) == 8
    assert cores("cuda:1x2", 1, separate=True) == 8
    assert cores("cpu:1", 2, separate=False) == 2
