"""The API page has every public name, and pages and project files agree with the package."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import laplacianshot
from tests.docs.test_code_blocks import PAGES, blocks, page_id

ROOT = Path(__file__).resolve().parents[2]
API_PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(r"^::: ([\w.]+)$", API_PAGE, re.MULTILINE)


def test_the_api_page_has_the_names_of_the_package_and_no_others():
    named = [name.removeprefix("laplacianshot.") for name in DOCUMENTED if name.count(".") == 1]
    assert sorted(named) == sorted(set(laplacianshot.__all__) - {"__version__"})
    assert len(DOCUMENTED) == len(set(DOCUMENTED))
    assert "Only the names on this page are public." in API_PAGE


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_name_of_the_api_page_is_exported_and_has_a_docstring(name):
    module, _, attribute = name.rpartition(".")
    home = importlib.import_module(module)
    assert attribute in getattr(home, "__all__", vars(home))
    found = getattr(home, attribute)
    if callable(found):
        assert found.__doc__


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "examples").glob("*.py"))], ids=page_id)
def test_pages_and_examples_use_public_names_only(page):
    if page.suffix == ".py":
        codes = [page.read_text(encoding="utf-8")]
    else:
        codes = [block.code for block in blocks(page) if block.kind == "python"]
    for code in codes:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("laplacianshot"):
                for alias in node.names:
                    assert f"{node.module}.{alias.name}" in DOCUMENTED, f"{page.name} imports {alias.name}"
            if isinstance(node, ast.Import):
                assert not [alias.name for alias in node.names if alias.name.startswith("laplacianshot.")], page.name


def test_version_changelog_and_citation_agree():
    version = laplacianshot.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in citation
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == version


def test_every_extra_of_the_readme_exists_and_none_is_left_out():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("| extra |") :].split("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named | {"test", "docs", "dev", "parquet"} == set(extras)


def test_the_architecture_page_names_rooms_and_modules_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "laplacianshot"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    assert rooms == {name for name in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) if name != "estimator"}
    for name in re.findall(rf"`((?:{'|'.join(rooms)})[./][\w./]+)`", page):
        place = package
        for part in re.split(r"[./](?!toml)", name.removesuffix(".py")):
            if place.is_file():
                break  # a name in a module
            place = place / part if (place / part).exists() else place / f"{part}.py"
        assert place.exists(), name
