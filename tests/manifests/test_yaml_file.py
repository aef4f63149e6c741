"""Strict YAML: what a reader takes a value for is what it is, or the file is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from suite.errors import ManifestError
from suite.manifests import catalog, strict, yaml_file
from suite.manifests.frameworks import FrameworkManifest
from suite.manifests.suites import SuiteManifest
from suite.paths import MANIFESTS

QUICK = (MANIFESTS / "suites" / "quick.yaml").read_text(encoding="utf-8")


def line_of(text: str, start: str) -> int:
    return next(
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.lstrip("- ").startswith(start)
    )


@pytest.mark.parametrize(
    "written", ["yes", "on", "true", "1.0", '"1"', "010", "0x1", "1_000", "1:30", "2026-01-01", "~"]
)
def test_only_an_integer_is_a_seed(refused: Callable[..., str], written: str) -> None:
    text = QUICK.replace("seed: 1", f"seed: {written}")
    assert text != QUICK
    message = refused(text)
    assert message.startswith(f"bad.yaml:{line_of(text, 'seed:')}: seed: Input should be a valid")
    assert message.endswith(f", not {written}")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("peak: yes", "peak: Input should be a valid boolean, not yes"),
        ("peak: 1", "peak: Input should be a valid boolean, not 1"),
        ("deadline_s: '300'", "deadline_s: Input should be a valid number, not '300'"),
        ("title: 2026", "title: Input should be a valid string, not 2026"),
        ("title: no", None),
        ("repeats: true", "repeats: "),
        ("measure: {block_s: true}", "measure.block_s: Input should be a valid number, not true"),
        ("tracks: equal", "tracks: "),
        ("deadline_s: 3e2", None),
        ("deadline_s: 300", None),
        ("peak: .nan", "peak: "),
    ],
)
def test_a_value_has_the_type_of_its_field(
    tmp_path: Path, refused: Callable[..., str], line: str, place: str | None
) -> None:
    values = yaml.safe_load(QUICK)
    key = line.partition(":")[0]
    values.pop(key, None)
    text = f"{line}\n{yaml.safe_dump(values)}"
    if place is None:
        (tmp_path / "good.yaml").write_text(text)
        assert strict.load(tmp_path / "good.yaml", SuiteManifest)
    else:
        assert refused(text).startswith(f"bad.yaml:1: {place}")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "key 'a' is given twice, first in line 1"),
        ("a:\n- {b: {c: 1, d: 2,\n  c: 1}}\n", 3, "key 'c' is given twice, first in line 2"),
        ("'a': 1\na: 2\n", 2, "key 'a' is given twice"),
        ("x: &x {a: 1}\ny: {<<: *x, <<: *x}\n", 2, "key '<<' is given twice"),
        ("a: 1\n---\na: 2\n", 2, "another document"),
        ("a: 1\nb:\n\t- 2\n", 3, "cannot start any token"),
        ("a: [\n", 2, "not YAML"),
        ("a: &a [*a]\n", 1, "an alias repeats itself"),
        ("a: &a {<<: *a}\n", 1, "an alias repeats itself"),
        ("a: *b\n", 1, "undefined alias"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "unknown tag"),
        ("a: !own {b: 1}\n", 1, "unknown tag !own"),
        ("a: !!int many\n", 1, "'many' is not of type int"),
        (f"a: {'9' * 5000}\n", 1, "is not of type int"),
        ("a: 1\n? [b]\n: 2\n", 2, "a key is not a name"),
        ("a: {<<: 1}\n", 1, "`<<` takes a mapping"),
        ("a: 1\nb: \x07\n", 2, "character 0x0007"),
        ("[" * 5000, 1, "too many levels"),
    ],
)
def test_what_is_no_strict_yaml_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(yaml_file.Refused, match=reason.replace("[", r"\[")) as caught:
        yaml_file.read(text.encode())
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"a: 1\nb: caf\xe9\n", 2), ("a: 1".encode("utf-16"), 1), (b"a: \x00", 1)],
)
def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=f"latin.yaml:{line}: not ") as caught:
        catalog.suite(str(path))
    assert caught.value.exit_code == 3


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + QUICK.replace("\n", "\r\n").encode())
    assert catalog.suite(str(path)) == catalog.suite("quick")


@pytest.mark.parametrize("form", ["[*{0}, *{0}, *{0}, *{0}]", "{{<<: [*{0}, *{0}], {0}: 1}}"])
def test_aliases_that_grow_are_refused_or_cost_nothing(form: str) -> None:
    """Four to the power of 30 items, and mappings that merge 2 to the power of 30 others."""
    lines = ["k0: &k0 {a: 1}"]
    lines += [f"k{n}: &k{n} {form.format(f'k{n - 1}')}" for n in range(1, 31)]
    text = "\n".join(lines).encode()
    if "<<" in form:
        assert len(yaml_file.read(text).values["k30"]) == 31
    else:
        with pytest.raises(yaml_file.Refused, match="aliases repeat too much"):
            yaml_file.read(text)


def test_merged_keys_yield_to_own_ones_and_the_first_mapping_to_none() -> None:
    text = b"x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], a: 5}\n"
    document = yaml_file.read(text)
    assert document.values["z"] == {"a": 5, "b": 2, "c": 4}
    assert document.line(("z", "c")) == 2 and document.written(("z", "b")) == "2"


def test_values_are_those_of_the_usual_loader_where_both_agree() -> None:
    """All manifests of the repository, where YAML 1.1 and 1.2 read the same."""

    def as_tuples(value: object) -> object:
        if isinstance(value, dict):
            return {str(key): as_tuples(each) for key, each in value.items()}
        return tuple(map(as_tuples, value)) if isinstance(value, list) else value

    paths = sorted(MANIFESTS.rglob("*.yaml"))
    assert len(paths) > 20
    for path in paths:
        expected = as_tuples(yaml.safe_load(path.read_text(encoding="utf-8")))
        assert yaml_file.read(path.read_bytes()).values == expected, path


def test_a_version_that_looks_like_a_number_is_named(refused: Callable[..., str]) -> None:
    text = (MANIFESTS / "frameworks" / "pytorch.yaml").read_text(encoding="utf-8")
    old = next(line for line in text.splitlines() if line.startswith("python:"))
    message = refused(text.replace(old, "python: 3.11"), FrameworkManifest)
    assert message.endswith("python: Input should be a valid string, not 3.11")
