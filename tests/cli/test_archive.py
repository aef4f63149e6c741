"""What `dlsuite verify` prints about a run in which very much differs."""

from suite.cli import archive
from suite.runner.verification.findings import Note, Outcome, finding


def test_a_file_with_very_many_findings_has_a_few_lines_and_their_number() -> None:
    many: list[Outcome] = [finding("a.json", f"blocks[{n}]", n, n + 1) for n in range(30)]
    lines = list(archive._lines([*many, Note(where="b.json", text="older")]))
    assert len(lines) == archive.MOST_LINES + 2
    assert lines[0] == "a.json: blocks[0]: expected 0, found 1"
    assert lines[-2:] == ["a.json: and 22 more; --format json shows all", "b.json: older"]
