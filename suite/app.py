"""What each command does: puts the parts together, prints the result, raises the failures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from suite import conformance as conformance_test
from suite import datasets, limit, manifest, planfile, records
from suite import doctor as diagnosis
from suite.app_run import folder_of, progress, show
from suite.errors import (
    ConformanceFailed,
    DataError,
    DlsuiteError,
    EngineError,
    Interrupted,
)
from suite.models import MODELS
from suite.report import as_json as json_report
from suite.report import table
from suite.report.summary import summarise
from suite.worker.protocol import SCHEMA_VERSION

SHOWN = 5  # files that cannot be read, named in one line


@dataclass
class Settings:
    """What holds for the whole process."""

    debug: bool = False


settings = Settings()


def known(error: Exception) -> DlsuiteError:
    """What to tell the user of any exception: its own words, the system's, or that it is a bug."""
    if isinstance(error, DlsuiteError):
        return error
    if isinstance(error, OSError) and error.filename:
        return EngineError(f"{error.filename}: {error.strerror}", hint="dlsuite doctor")
    return DlsuiteError(
        f"a bug in dlsuite: {type(error).__name__}: {error}",
        hint="run it again as dlsuite --debug ..., and report the traceback",
    )


def report(run: Path, *, results: Path, as_json: bool) -> None:
    """Print a run's summary; `run` is a folder, or a name in `results`."""
    folder = folder_of(run, results)
    found = records.read(folder)
    summaries = summarise(found)
    missing = planfile.missing(folder, found)
    if as_json:
        print(json_report.render(found[0].run_id, summaries, missing, limit.read(folder)))
        return
    show(summaries, limit.read(folder))
    if missing:
        text = f"{len(missing)} planned runs have no record yet; dlsuite resume {run} does them"
        table.console().print(text, soft_wrap=True)


def prepare(name: str, source: Path | None) -> None:
    """Prepare a dataset, say where it lies, and what of the user's files is not in it."""
    dataset = manifest.dataset(name)
    with progress() as live:
        try:
            place = datasets.prepare(dataset, say=live.say, source=source)
        except KeyboardInterrupt:
            hint = "the same command begins again; images that are decoded already are kept"
            raise Interrupted("interrupted", hint=hint) from None
    print(place)
    images = datasets.read(dataset).images
    if images and images.unreadable:
        left_out = sorted(images.unreadable)
        total = sum(images.samples.values()) + len(left_out)
        more = ", ..." if len(left_out) > SHOWN else ""
        print(
            f"{len(left_out):,} of {total:,} files cannot be read: "
            f"{', '.join(left_out[:SHOWN])}{more}; the rest is used, "
            f"and {place / 'dataset.json'} names them all with the reason",
            file=sys.stderr,
        )


def verify(name: str) -> None:
    """Compare every prepared file with its checksum; DataError where one is another."""
    dataset = manifest.dataset(name)
    damaged = datasets.verify(dataset, full=True)
    if damaged:
        raise DataError(
            f"{datasets.folder(dataset) / damaged}: missing, cut short or changed",
            hint=datasets.command(dataset),
        )
    print(datasets.folder(dataset))


def list_all() -> None:
    """Print all names that the other commands take."""
    shown = table.console()
    for name in manifest.names("framework"):
        framework = manifest.framework(name)
        shown.print(f"framework {name}: {framework.title}, Python {framework.python}")
        for variant, meaning in framework.variants.items():
            shown.print(f"  variant {name}:{variant}: {meaning}")
    for track in manifest.tracks().values():
        shown.print(f"track {track.name}: {track.title}")
    for name, make in MODELS.items():
        architecture = make()
        shown.print(f"model {name}: {architecture.parameter_count:,} parameters")
    for name in manifest.names("dataset"):
        shown.print(f"dataset {name}: {manifest.dataset(name).title}")
    for name in manifest.names("suite"):
        shown.print(f"suite {name}: {manifest.suite(name).title}")


def doctor() -> None:
    """Print the diagnosis; EngineError where no framework can run here."""
    findings = diagnosis.examine()
    shown = table.console()
    for finding in findings:
        shown.print(f"{finding.mark} {finding.text}", markup=False, soft_wrap=True)
        if finding.next_step:
            shown.print(f"  next: {finding.next_step}", markup=False, soft_wrap=True)
    if not any(finding.good for finding in findings if finding.framework):
        raise EngineError("no framework can run here", hint="follow the steps above")


def conformance(command: list[str]) -> None:
    """Put a worker through the protocol's test; ConformanceFailed where it fails."""
    problems = conformance_test.check(command)
    if problems:
        print("\n".join(problems))
        count, first = len(problems), problems[0]
        raise ConformanceFailed(
            f"{count} breaches of the protocol, the first: {first}", hint="docs/protocol.md"
        )
    print(f"conforms to protocol version {SCHEMA_VERSION}")
