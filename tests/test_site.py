"""The site builds from docs/ without a warning: every link and anchor leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pk.client
from pk.core.config import BROKER_KEYS, TOPIC_KEYS
from pk.core.errors import ErrorCode
from pk.net.client.config import ProducerConfig, keys

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path))
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    configs = (tmp_path / "reference" / "configs" / "index.html").read_text(encoding="utf-8")
    for key in (*BROKER_KEYS, *TOPIC_KEYS):
        assert f"<code>{key}</code>" in configs
    errors = (tmp_path / "reference" / "errors" / "index.html").read_text(encoding="utf-8")
    for code in ErrorCode:
        assert f"<code>{code.name}</code>" in errors
    client = (tmp_path / "reference" / "client" / "index.html").read_text(encoding="utf-8")
    methods = ("Producer.send_many", "Consumer.poll", "Admin.alter_configs")
    described = [name for name in pk.client.__all__ if not name.startswith("open_")]
    for name in (*described, *methods):
        assert f'id="pk.client.{name}"' in client, name
    assert 'id="pk.testing.Broker.fail_next"' in client
    for name in keys(ProducerConfig):
        assert f"<code>{name}</code>" in client, name
    assert "Add an option" in (tmp_path / "contributing" / "index.html").read_text(encoding="utf-8")
    for name in ("log", "replication", "groups", "transactions"):
        page = (tmp_path / "concepts" / name / "index.html").read_text(encoding="utf-8")
        assert re.search(rf'<img alt="[^"]+" src="\.\./{name}\.svg"', page), name
    for path in tmp_path.rglob("*.html"):
        assert loaded_from_elsewhere(path.read_text(encoding="utf-8")) == [], path


def loaded_from_elsewhere(page: str) -> list[str]:
    """The URLs on other hosts that a browser would fetch to show the page. The site works
    offline."""
    elements = re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*>", page)
    fetched = [
        each
        for each in elements
        if re.search(r'\b(?:src|href)="(?:https?:)?//', each)
        and not re.search(r'\brel="(?:canonical|edit|prev|next)"', each)
    ]
    # The theme fetches Mermaid's library for a page with such a diagram.
    return fetched + re.findall(r'<\w+ class="mermaid"', page)


def test_what_a_page_loads_from_elsewhere_is_found() -> None:
    found = [
        '<script src="https://example.org/a.js">',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<pre class="mermaid"',
    ]
    page = "".join(each + ("" if each.endswith(">") else ">") for each in found)
    assert loaded_from_elsewhere(page) == found
    assert loaded_from_elsewhere('<a href="https://example.org/"><img src="../a.svg">') == []


def test_the_quick_start_is_what_the_readme_shows() -> None:
    """tests/cli/test_readme.py runs that."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    lines = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith("$ ")]
    assert len(shown) >= 5
    assert [line for line in shown if line not in readme] == []
