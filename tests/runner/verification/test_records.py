"""The figures of a record of inference, computed again."""

import pytest

from suite.models import MODELS
from suite.results.record import Record
from suite.runner.recording import bytes_per_sample
from suite.runner.verification.inputs import Described
from suite.runner.verification.records import check_figures
from tests.report.made_inference import inferred


def complete(scenario: str, samples_per_s: float) -> Record:
    """A record whose model's work is right."""
    record = inferred(scenario, p50_s=1e-3, mean_s=2e-3, samples=2500)
    model = MODELS[record.workload.model]()
    values = {
        "samples_per_s": samples_per_s,
        "flops_per_sample": model.flops_per_sample("infer"),
        "bytes_per_sample": bytes_per_sample(model, record.workload),
    }
    return record.model_copy(update=values)


@pytest.mark.parametrize("scenario", ["single_stream", "multi_stream"])
def test_the_rate_is_that_of_the_mean_latency(scenario: str) -> None:
    record = complete(scenario, 500.0)
    workload = record.workload
    described = Described(architecture=MODELS[workload.model]())
    known = {(workload.model, workload.dataset): described}
    assert not [*check_figures("r.json", record, known)]
    (found,) = check_figures("r.json", complete(scenario, 501.0), known)
    assert "samples_per_s" in str(found)
