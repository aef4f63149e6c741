"""What all pages share: the templates, the styles, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any


def render(template: str, *, live: str = "", **values: Any) -> str:
    """A page: one file that loads nothing, with the style and the scripts that it allows.

    `live` is a second script beside the filter.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("suite.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    style, script = text("style.css"), text("filter.js")
    hashes = {"style": _hash(style), "filter": _hash(script), "live": _hash(live)}
    page = environment.get_template(template)
    return page.render(style=style, script=script, hashes=hashes, live=live, **values)


def text(name: str) -> str:
    """The file with this name among the templates."""
    return files("suite.report.html").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression that allows exactly this inline style or script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
