"""`python -m suite.worker FOLDER`: runs the trial in FOLDER and writes its events.

A trial of several ranks is started once for each of them by a launcher, or once on each node: this
process then starts the ranks of the node.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import child, interleaving, launch, peak, proof, ranks, telemetry
from .frameworks import load
from .loop import exchange, train
from .native import program
from .protocol import (
    Distributed,
    Events,
    Predictor,
    Session,
    Trial,
    read_statistics,
    read_weights,
)


def main(folder: Path) -> int:
    """Run the trial in `folder`; return the exit code."""
    trial = Trial.read(folder)
    if trial.world_size > 1:
        rank = ranks.number()
        if rank is None:
            return launch.run(trial, folder)
        trial = ranks.of(trial, rank)
    if program.is_native(trial.framework):
        return _replaced(trial, folder)
    events = Events(Path(trial.paths["results"]), trial.rank)
    try:
        _run(trial, events)
    except BaseException as error:
        return _failed(events, error)
    if trial.world_size > 1:
        # A rank leaves the others when its session is collected. Threads of PyTorch and MXNet that
        # are still there when the interpreter ends can abort the process.
        gc.collect()
    # Otherwise the interpreter, at its end, searches all objects of the framework for garbage.
    gc.freeze()
    return 0


def _replaced(trial: Trial, folder: Path) -> int:
    """Become the framework's compiled program; return the exit code where there is none."""
    try:
        program.replace(program.ready(trial.framework), trial, folder)
    except BaseException as error:
        return _failed(Events(Path(trial.paths["results"])), error)
    return 0


def _failed(events: Events, error: BaseException) -> int:
    events.emit(
        "failed",
        error_class=type(error).__name__,
        message=str(error),
        traceback=traceback.format_exc(),
        unix_s=time.time(),
    )
    return 1


def _run(trial: Trial, events: Events) -> None:
    """Start the sampler, load the framework, build the model, and run the trial."""
    with interleaving.together(trial), ExitStack() as stack:
        trial, group = stack.enter_context(ranks.joined(trial))
        with interleaving.of(trial):
            stack.enter_context(telemetry.sampling(trial))
            if hasattr(os, "sched_setaffinity"):  # the sampler, already started, is not pinned
                os.sched_setaffinity(0, trial.cpus)
            framework = _load(trial, events)
            model = None if trial.mode == "peak" else _build(trial, framework, events)
        _run_mode(trial, framework, model, events, group)
    events.emit("finished")


def _run_mode(
    trial: Trial,
    framework: Any,
    model: Session | Predictor | None,
    events: Events,
    group: ranks.Alone,
) -> None:
    """Run the trial in its mode; a loader's processes end when this function returns."""

    def memory() -> None:
        facts = framework.memory(trial)
        peak_bytes = _rss_peak_bytes() + facts.pop(child.RSS_PEAK, 0)
        events.emit("memory", host_rss_peak_bytes=peak_bytes, **facts)

    if model is None:
        peak.measure(trial, events.emit)
        memory()
        return
    if trial.scenario:
        from . import inference  # LoadGen is needed only here

        predictor = cast(Predictor, model)
        with interleaving.of(trial) as turns:
            if trial.mode == "infer":
                inference.infer(trial, predictor, framework.LAYOUT, events.emit, turns, memory)
            else:
                inference.parity(trial, predictor, framework.LAYOUT, events.emit)
                memory()
        return
    session = cast(Session, model)
    if trial.mode == "train":
        stepper = train(trial, session, framework.LAYOUT, events.emit, group)
        memory()  # before what follows, whose buffers and copies are not the framework's
        if trial.world_size > 1:
            exchange(trial, cast(Distributed, session), group, events.emit)
        if trial.closing:
            with interleaving.of(trial):
                proof.close(trial, session, stepper, framework.LAYOUT, events.emit)
    else:
        proof.MODES[trial.mode](trial, session, framework.LAYOUT, events.emit)
        memory()


def _load(trial: Trial, events: Events) -> Any:
    """Import the framework."""
    started = time.perf_counter()
    framework = load(trial)
    events.emit(
        "started",
        import_s=time.perf_counter() - started,
        framework_version=framework.version(),
        versions={"python": platform.python_version(), "numpy": np.__version__},
    )
    return framework


def _build(trial: Trial, framework: Any, events: Events) -> Session | Predictor:
    """Build the model with its initial weights; for inference, with its statistics too."""
    weights = read_weights(trial)
    started = time.perf_counter()
    if trial.scenario:
        model: Any = framework.Predictor(trial, weights, read_statistics(trial))
        built = weights
    else:
        model = framework.Session(trial, weights)
        built = model.weights()
    events.emit(
        "built",
        build_s=time.perf_counter() - started,
        parameters=sum(values.size for values in built.values()),
        device=framework.device(trial),
    )
    return cast("Session | Predictor", model)


def _rss_peak_bytes() -> int:
    """The largest resident size of this process since its program started."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
