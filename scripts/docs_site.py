"""MkDocs' hooks for the site (`make site`): generated pages, links that leave docs/, the search.

The pages of the repository's root are pages of the site too. A link to another file outside docs/
becomes its path. The dated measurements and the published comparisons are not in the search.
"""

from __future__ import annotations

import posixpath
import re
import runpy
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from suite.paths import REPOSITORY

# Pages of the root, by their name in the site.
OF_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
NOT_SEARCHED = ("measurements/", "papers/", "changelog.md")
FIRST = ("tutorial/", "how-to/")  # in the answers of the search, before references
BOOST = 4
# What the plugin `offline` loads from elsewhere, and what takes its place.
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
FRAME_WORKER = "site/frame-worker.js"
DIALOG = 'data-md-component="search" role="dialog"'
LINK = re.compile(r"(!?)\[([^]]*)\]\(([^)#\s:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and make the generated pages anew."""
    for name, site_name in OF_THE_ROOT.items():
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        files.append(File.generated(config, site_name, content=_links(text, "", site_name)))
    pages = runpy.run_path(str(REPOSITORY / "scripts" / "docs_tables.py"))["pages"]
    for name, text in pages().items():
        old = files.get_file_from_path(f"reference/{name}")
        if old is not None:
            files.remove(old)
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **others: Any) -> str:
    """Keep the page out of the search where it is a measurement, and make its links the site's."""
    source = page.file.src_uri
    if source.startswith(NOT_SEARCHED):
        page.meta["search"] = {"exclude": True}
    elif source.startswith(FIRST):
        page.meta["search"] = {"boost": BOOST}
    if source in OF_THE_ROOT.values():
        return markdown  # its links are the site's already
    return _links(markdown, posixpath.join("docs", posixpath.dirname(source)), source)


def on_post_page(output: str, *, page: Page, **others: Any) -> str:
    """Take the script for pages that are opened as files from the site, not from elsewhere.

    The theme's search is a dialog without a name, which screen readers need.
    """
    relative = posixpath.relpath(FRAME_WORKER, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace(ELSEWHERE, relative).replace(DIALOG, f'{DIALOG} aria-label="Search"')


def _links(text: str, folder: str, source: str) -> str:
    """The text of a page in `folder` of the repository, with the links of the page `source`."""

    def link(found: re.Match[str]) -> str:
        image, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        site_path = OF_THE_ROOT.get(path)
        if path.startswith("docs/") and (REPOSITORY / path).is_file():
            site_path = path.removeprefix("docs/")
        if site_path is None:
            return label if label.startswith("`") else f"{label} (`{path}`)"
        relative = posixpath.relpath(site_path, posixpath.dirname(source) or ".")
        return f"{image}[{label}]({relative}{anchor})"

    return LINK.sub(link, text)
