"""The commands `list` and `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from suite.cli.doctor import examine, verdicts
from suite.errors import EngineError, ManifestError
from suite.manifests import catalog, papers
from suite.manifests.datasets import DatasetManifest
from suite.manifests.files import names
from suite.manifests.models import problem
from suite.manifests.papers import PaperManifest
from suite.manifests.suites import SuiteManifest
from suite.models import MODELS
from suite.report import table

Row = tuple[str, ...]


def list_all() -> None:
    """Show the frameworks with their variants, tracks, models, datasets and suites."""
    frameworks = catalog.frameworks().values()
    _print(
        "Frameworks",
        ("name", "version range", "description"),
        (
            (f"{each.name}:{variant}", f"Python {each.python}", meaning)
            for each in frameworks
            for variant, meaning in each.variants.items()
        ),
    )
    _print(
        "Tracks",
        ("name", "description"),
        ((each.name, each.title) for each in catalog.tracks().values()),
    )
    _print("Models", ("name", "parameters", "input"), map(_model_row, MODELS))
    datasets = [*names("dataset"), *catalog.own_datasets()]
    _print("Datasets", ("name", "description"), _titles(datasets, catalog.dataset))
    _print("Suites", ("name", "description"), _titles(names("suite"), catalog.suite))
    _print(
        "Published comparisons",
        ("name", "description"),
        ((papers.PREFIX + name, title) for name, title in _titles(names("paper"), papers.paper)),
    )


def _model_row(name: str) -> Row:
    """A model with its size; one whose file is wrong, with the reason."""
    if reason := problem(name):
        return name, "", f"not usable: {reason}"
    model = MODELS[name]()
    return name, f"{model.parameter_count:,}", " x ".join(map(str, model.input_shape))


def _titles(
    names: Iterable[str], read: Callable[[str], DatasetManifest | SuiteManifest | PaperManifest]
) -> Iterator[Row]:
    """Manifests with their titles; one whose file is wrong, with the reason."""
    for name in names:
        try:
            yield name, read(name).title
        except ManifestError as error:
            yield name, f"not usable: {error}"


def doctor() -> None:
    """Check what this machine can run, and show the next command for each missing part."""
    findings = examine()
    _print(
        "This machine",
        ("state", "finding"),
        (("ok" if finding.good else "missing", finding.text) for finding in findings),
    )
    console = table.console()
    # Below the table, on lines of their own: a command in a narrow column cannot be copied.
    for finding in findings:
        if finding.next_step:
            subject = finding.text.partition(":")[0]
            console.print(f"next for {subject}: {finding.next_step}", soft_wrap=True)
    for verdict in verdicts(findings):
        console.print(verdict, soft_wrap=True)
    if not any(finding.good for finding in findings if finding.framework):
        raise EngineError("no framework can run here", hint="follow the steps above")


def _print(title: str, columns: Row, rows: Iterable[Row]) -> None:
    """Print a table whose last column is prose."""
    cells = [dict(zip(columns, row, strict=True)) for row in rows]
    table.console().print(table.of_rows(title, cells, left=columns, folded=columns[-1:]))
