"""The commands `model ...`: models of the user."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from suite.cli.groups import Resources
from suite.cli.options import Busy, Engine, IfBusy, Pythons
from suite.cli.session import engine_on, progress
from suite.datasets.formats import synthetic
from suite.engines import sessions
from suite.errors import ManifestError, ResultsError, UsageError
from suite.importing import fidelity, reading
from suite.manifests import catalog, model_files
from suite.manifests.devices import Devices
from suite.manifests.model_files import SUFFIX, Origin
from suite.manifests.models import problem
from suite.manifests.workloads import Sgd, Workload
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.branches import Branches
from suite.models.layer import Layer, Shape
from suite.parity.workers import FRAMEWORKS
from suite.paths import sha256
from suite.report import table

model = typer.Typer(no_args_is_help=True, help="Import and show models of your own.")
READERS = {".onnx": "onnxruntime", ".keras": "keras"}  # the framework that reads a file
SOURCE = re.compile(r"(.+):([A-Za-z_]\w*)")


@model.callback()
def _group() -> None:
    """Import and show models of your own."""


@model.command("import")
def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="net.py:Net, a class, function or object; package.net:Net; net.onnx; net.keras.",
        ),
    ],
    shape: Annotated[
        str | None,
        typer.Option("--input", metavar="CxHxW", help="The shape of a sample: 3x224x224."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help=f"The new file, NAME{SUFFIX}."),
    ] = None,
    python: Pythons = None,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Import a model of PyTorch, ONNX or Keras as layers, and prove that they are equal to it.

    The file is read in the environment of its framework, not in this process. Its logits for 32
    random inputs are compared with those of the layers in the float64 reference, with the file's
    own weights and with changed ones. Exit code 16: an operation is no layer; 8: the layers are
    not equal to the file.

    Example: dlsuite model import net.py:Net --input 3x32x32
    """
    path, attribute = _source(source)
    target = out or Path(f"{_name(attribute or path.stem)}{SUFFIX}")
    if not target.name.endswith(SUFFIX):
        raise UsageError(f"--out {target} does not end in {SUFFIX}", hint="-o net.model.json")
    name = _name(target.name.removesuffix(SUFFIX))
    if name in MODELS:
        raise UsageError(f"a model is named {name!r} already", hint=f"-o my_{name}{SUFFIX}")
    size = reading.shape_of(shape) if shape else None
    if attribute and size is None:
        raise UsageError("--input is missing", hint="--input 3x224x224")
    reader = "pytorch" if attribute else READERS[path.suffix.lower()]
    frameworks = tuple(dict.fromkeys((*FRAMEWORKS, reader)))
    options = Resources(engine=Engine.venv).options()
    with (
        progress() as live,
        engine_on(options, frameworks, live, session_id=sessions.new_id(), if_busy=if_busy) as (
            engine,
            work_dir,
        ),
        tempfile.TemporaryDirectory(dir=work_dir) as folder,
    ):
        live.stage("environments")
        prepared = {
            each: engine.prepare(catalog.framework(each), live.notify) for each in frameworks
        }
        # The user's interpreter reads the file; the reference needs our own environment.
        own = Resources(engine=Engine.venv, python=python).options().interpreters()
        interpreter = own.get(reader, prepared[reader].python)
        assert interpreter is not None  # of the venv engine
        live.notify(f"reading {source}")
        common: dict[str, Any] = {"name": name, "python": interpreter, "folder": Path(folder)}
        if attribute and size:
            full = str(path.absolute()) if path.suffix == ".py" else str(path)
            imported = reading.from_pytorch(full, attribute, size, **common)
        elif reader == "keras":
            imported = reading.from_keras(path, size, **common)
        else:
            imported = reading.from_onnx(path, size, **common)
        MODELS[name] = lambda: imported.architecture
        live.stage("parity")
        found = fidelity.fidelity_of(imported, engine, prepared, work_dir, live.notify)
    origin = Origin(
        source=source,
        sha256=sha256(path) if path.is_file() else None,
        runtime=imported.runtime,
        samples=len(imported.own.inputs),
        error=found.error,
        changed_error=found.changed_error,
        notes=imported.notes,
    )
    try:
        model_files.write(target, imported.architecture, origin, imported.own.weights)
    except OSError as failed:
        raise ResultsError(f"{target}: {failed.strerror}", hint="-o FILE") from None
    _print_origin(origin)
    print(f"{target}: next: dlsuite run quick --model {target}")


@model.command()
def show(
    file: Annotated[str, typer.Argument(help=f"A file NAME{SUFFIX}, or a model's name.")],
) -> None:
    """Show the layers of a model, and which framework can run it.

    Example: dlsuite model show net.model.json
    """
    name = model_files.register(Path(file)) if model_files.is_file(file) else file
    if name not in MODELS:
        raise UsageError(f"unknown model {file!r}", hint="dlsuite list, or a file net.model.json")
    if reason := problem(name):
        raise ManifestError(f"model {name}: {reason}", hint=f"edit {file}")
    architecture = MODELS[name]()
    console = table.console()
    title = f"{name}: {architecture.parameter_count:,} parameters"
    rows = [*_rows(architecture.layers, architecture.input_shape, "")]
    columns = ("layer", "kind", "output", "parameters", "MFLOP")
    console.print(table.of_rows(title, rows, left=columns[:3], width=console.width))
    support = [*_support(architecture)]
    console.print(
        table.of_rows(
            "frameworks", support, left=tuple(support[0]), folded=("training", "inference")
        )
    )
    if file.endswith(SUFFIX) and (origin := model_files.read(Path(file)).origin):
        _print_origin(origin)


def _source(text: str) -> tuple[Path, str | None]:
    """The file, and the attribute of a .py file or a module; UsageError where there is none."""
    found = SOURCE.fullmatch(text)
    path = Path(found[1] if found else text)
    if not found and path.suffix.lower() not in READERS:
        raise UsageError(
            f"{text!r} names no class or function", hint="net.py:Net, net.onnx, or net.keras"
        )
    if path.suffix.lower() in (".py", *READERS) and not path.is_file():
        raise UsageError(f"{path}: no such file", hint="ls *.py *.onnx *.keras")
    return path, found[2] if found else None


def _name(text: str) -> str:
    """A name as manifests accept it."""
    return re.sub(r"[^a-z0-9_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower())


def _print_origin(origin: Origin) -> None:
    error, changed = (
        None if each is None else f"{each:.1e}" for each in (origin.error, origin.changed_error)
    )
    also = "" if changed is None else f"; {changed} with changed weights"
    print(
        f"from file: equal ({error or 'not compared'} of {origin.runtime}, {origin.samples} random"
        f" inputs{also})"
    )
    if error is None:
        print("note: with the weights of the file the results do not depend on the inputs")
    for note in origin.notes:
        print(f"note: {note}")


def _rows(layers: tuple[Layer, ...], shape: Shape, indent: str) -> Iterator[dict[str, str]]:
    """The layers with the shapes of their results; those of branches are indented."""
    for layer in layers:
        after = layer.output_shape(shape)
        inner = isinstance(layer, Branches)
        macs = 0 if inner else layer.macs(shape)
        size = 0 if inner else sum(each.size for each in layer.parameters())
        yield {
            "layer": f"{indent}{layer.name}",
            "kind": layer.kind,
            "output": " x ".join(map(str, after)),
            "parameters": f"{size:,}" if size else "",
            "MFLOP": f"{2 * macs / 1e6:,.3g}" if macs else "",
        }
        if isinstance(layer, Branches):
            for number, branch in enumerate(layer.branches, 1):
                if branch:
                    yield from _rows(branch, shape, f"{indent}{number}  ")
        shape = after


def _support(architecture: Architecture) -> Iterator[dict[str, str]]:
    """For each framework whether it trains the model and answers with it, on one CPU."""
    needs = {each for layer in architecture.leaves() for each in layer.needs}
    common: dict[str, Any] = {"model": architecture.name, "dataset": synthetic.NAME}
    sgd = Sgd(name="sgd", learning_rate=0.01)
    workloads = {
        "training": Workload(**common, batch_size=32, optimizer=sgd),
        "inference": Workload(
            **common, batch_size=1, mode="infer", scenario="single_stream", query_samples=1
        ),
    }
    for manifest in catalog.frameworks().values():
        options: dict[str, Any] = {
            "variant": next(iter(manifest.variants)),
            "devices": Devices.parse("cpu"),
            "layers": needs,
        }
        reasons = {
            title: manifest.unsupported_reason(**options, workload=workload)
            for title, workload in workloads.items()
        }
        yield {"framework": manifest.title} | {k: v or "yes" for k, v in reasons.items()}
