"""For mkdocs: links from a page of docs/ to what is only in the repository become plain text, if their target is
there."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def plain(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if not (ROOT / target).exists():
            raise PluginError(f"docs/{page.file.src_uri}: {link[0]}: there is no {target}")
        in_site = (
            target.startswith("docs/") and (ROOT / target).is_file() and not target.startswith("docs/results/records")
        )
        return link[0] if in_site else f"{link[1]} (`{target}` in the repository)"

    return LINK.sub(plain, markdown)
