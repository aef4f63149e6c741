"""A file of the user's whose model cannot be used: it costs its own models only."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite import models
from suite.cli import info
from suite.manifests.models import problem
from suite.models import MODELS, BrokenModel

IMPORTS = "from suite.models.architecture import Architecture\n"
FILES = {
    "keyword": f"""{IMPORTS}from suite.models.layers import Conv2d
def broken_keyword() -> Architecture:
    Conv2d(name="c", in_channels=1, out_channels=2, kernel=(3, 3), transposed=True)
""",
    "imports": f"import no_such_package\n{IMPORTS}def broken_import() -> Architecture: ...\n",
    "syntax": f"{IMPORTS}def one() -> Architecture:\n    return (\n\n"
    "def two() -> Architecture: ...\n",
    "exits": f"{IMPORTS}def broken_exit() -> Architecture: ...\nraise SystemExit(3)\n",
    "nothing": f"{IMPORTS}def broken_none() -> Architecture:\n    pass\n",
    "whole": f"{IMPORTS}def whole() -> Architecture:\n    from suite.models import lenet\n"
    "    return lenet.lenet()\n",
}
REASONS = {
    "broken_keyword": "keyword.py:4: TypeError: Conv2d.__init__() got an unexpected keyword",
    "broken_import": "imports.py:1: ModuleNotFoundError: No module named 'no_such_package'",
    "one": "syntax.py:3: SyntaxError: '(' was never closed",
    "two": "syntax.py:3: SyntaxError",
    "broken_exit": "exits.py:3: SystemExit: 3",
    "broken_none": "TypeError: it returns NoneType, not Architecture",
}


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, models.Make]]:
    """The models of a folder with all these files."""
    package = tmp_path / "users_models"
    package.mkdir()
    for name, text in {"__init__": "", **FILES}.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield dict(models._found([str(package)], "users_models"))
    for name in [name for name in sys.modules if name.startswith("users_models")]:
        del sys.modules[name]


def test_each_broken_file_costs_its_own_models_and_names_the_line(
    found: dict[str, models.Make],
) -> None:
    assert found.keys() == {*REASONS, "whole"}
    assert found["whole"]().name == "lenet"
    for name, reason in REASONS.items():
        with pytest.raises(BrokenModel) as caught:
            found[name]()
        assert str(caught.value).startswith(f"model {name}: {reason}"), caught.value
        assert caught.value.hint.startswith("correct ")


def test_the_list_goes_on_and_shows_the_reason(
    found: dict[str, models.Make],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("broken_keyword", "broken_import"):
        monkeypatch.setitem(MODELS, name, found[name])
    try:
        info.list_all()
    finally:
        problem.cache_clear()
    shown = " ".join(capsys.readouterr().out.split())
    assert "broken_keyword not usable: keyword.py:4: TypeError" in shown
    assert "lenet " in shown and "Suites" in shown
