"""Files of the repository's root as pages of the site, with links that lead to pages."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {name: f"{name.lower()}.md" for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY")}
_LINK = re.compile(rf"\]\((?:\.\./)*({'|'.join(PAGES)})\.md")


def on_files(files: Any, config: Any) -> Any:
    """Add the files of the root."""
    for name, page in PAGES.items():
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the files of the root, as they are in the repository, lead to their pages."""
    up = "../" * page.file.src_uri.count("/")
    return _LINK.sub(lambda link: f"]({up}{PAGES[link.group(1)]}", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Docstrings announce code by two colons; of which readers need one."""
    return html.replace("::</p>", ":</p>")
