"""The documents: every file, command, option and target that they name exists."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from suite.cli.main import cli
from suite.manifests import catalog
from suite.manifests.files import names
from suite.manifests.strict import Strict
from suite.manifests.suites import SuiteManifest
from suite.manifests.workloads import Measure, Repeats, SuiteWorkload
from suite.paths import REPOSITORY
from suite.protocol import documents

PAGES = sorted(
    [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/**/*.md")]
)
FOLDERS = ("docker", "docs", "manifests", "scripts", "suite", "tests")
CODE = re.compile(r"```.*?\n(.*?)```|`([^`\n]+)`", re.DOTALL)
PLACEHOLDER = re.compile(r"[<>*%$]|\.\.\.|NAME|my_network")


def snippets(page: Path) -> Iterator[str]:
    """The code blocks, line by line, and the inline code of a page."""
    for block, inline in CODE.findall(page.read_text(encoding="utf-8")):
        yield from (inline,) if inline else block.splitlines()


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_files_exist(page: Path) -> None:
    for snippet in snippets(page):
        for word in snippet.split():
            path = word.strip(",;:()'\"")
            in_repository = path.startswith(tuple(f"{folder}/" for folder in FOLDERS))
            if in_repository and not PLACEHOLDER.search(path):
                assert (REPOSITORY / path.split(":")[0]).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_commands_and_options_exist(page: Path) -> None:
    root = get_command(cli)
    for snippet in snippets(page):
        found = re.match(r"(?:\.venv/bin/)?dlsuite (.+)", snippet.strip())
        if not found or found[1].startswith("--"):
            continue
        words = found[1].split("#")[0].split(" -- ")[0].split()
        command = root
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
        assert command is not root, snippet
        options = {option for each in command.params for option in each.opts}
        for word in words:
            if word.startswith("-") and not PLACEHOLDER.search(word):
                assert word.split("=")[0] in {*options, "--help"}, snippet


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_make_targets_exist(page: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = [each.replace("%", ".+") for each in re.findall(r"^([a-z0-9%-]+):", makefile, re.M)]
    for snippet in snippets(page):
        found = re.match(r"make ([a-z][a-z0-9_-]*)", snippet.strip())
        if found:
            assert any(re.fullmatch(target, found[1]) for target in targets), snippet


def test_the_schemas_are_current() -> None:
    for name, text in documents.documents().items():
        assert (REPOSITORY / "docs" / "reference" / name).read_text(encoding="utf-8") == text, (
            "make docs"
        )


def test_the_generated_pages_are_current() -> None:
    pages = runpy.run_path(str(REPOSITORY / "scripts" / "docs_tables.py"))["pages"]
    for name, text in pages().items():
        assert (REPOSITORY / "docs" / "reference" / name).read_text(encoding="utf-8") == text, (
            "make docs"
        )


@pytest.mark.parametrize("schema_of", [SuiteManifest, SuiteWorkload, Repeats, Measure])
def test_the_page_of_suites_has_every_key(schema_of: type[Strict]) -> None:
    text = (REPOSITORY / "docs" / "reference" / "suites.md").read_text(encoding="utf-8")
    missing = [name for name in schema_of.model_fields if f"`{name}`" not in text]
    assert missing == []


@pytest.mark.parametrize("framework", names("framework"))
def test_the_page_of_configurations_has_every_variant(framework: str) -> None:
    text = (REPOSITORY / "docs" / "reference" / "configurations.md").read_text(encoding="utf-8")
    variants = catalog.framework(framework).variants
    missing = [name for name in variants if not re.search(rf"`({framework}:)?{name}`", text)]
    assert missing == []


def test_the_example_on_the_page_of_suites_is_a_suite(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "reference" / "suites.md").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    found = catalog.suite(str(tmp_path / "mine.yaml"))
    assert found.name == "mine" and found.workloads[0].model == "lenet"
