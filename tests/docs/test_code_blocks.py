"""The code of the README and of the guides runs, and their commands have the options that they use.

Blocks of Python on a page run one after the other, in a folder with stand-ins for the data (``stand_ins.py``). A
comment ``<!-- no-run: reason -->`` before a block leaves it out. Commands run after ``<!-- run -->``; of all others the
options are looked up.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.stand_ins import make_files, names

typer = pytest.importorskip("typer", reason="needs the extra cli")
from laplacianshot.cli.app import app, run  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
# tests/baselines/test_methods_page.py runs the code of this page, and looks at what it prints.
RUN_ELSEWHERE = {"new-method.md"}
COMMANDS = typer.main.get_command(app).commands

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<kind>\w+)\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    kind: str
    mark: str
    code: str
    line: int

    @property
    def runs(self) -> bool:
        return not self.mark.startswith("no-run") if self.kind == "python" else self.mark == "run"

    @property
    def commands(self) -> list[list[str]]:
        """The words of each line that begins with a prompt."""
        lines = re.findall(r"^\$ ((?:\\\n|.)*)", self.code, re.MULTILINE)
        return [shlex.split(line.replace("\\\n", " "), comments=True) for line in lines]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["mark"] or "", found["code"], text[: found.start("code")].count("\n"))
        for found in _BLOCK.finditer(text)
    ]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in RUN_ELSEWHERE and any(block.runs for block in blocks(page))],
    ids=page_id,
)
@pytest.mark.filterwarnings("ignore")
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(cache))
    make_files(tmp_path)
    defined = {"__name__": "page", **names()}
    for block in blocks(page):
        if not block.runs:
            continue
        if block.kind == "python":
            # Line numbers of an error are those of the page.
            exec(compile("\n" * block.line + block.code, str(page), "exec"), defined)
        else:
            for program, *arguments in block.commands:
                assert program == "laplacianshot", f"{page.name}:{block.line}: only our own commands are run"
                assert run(arguments) == 0, f"{page.name}:{block.line}: {shlex.join(arguments)}"


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").glob("[rm]e*/*.md"))], ids=page_id)
def test_commands_on_a_page_have_the_options_that_it_uses(page):
    for block in blocks(page):
        for words in block.commands if block.kind == "console" else []:
            if words[:1] != ["laplacianshot"] or len(words) < 2 or words[1].startswith("-"):
                continue
            assert words[1] in COMMANDS, f"{page.name}:{block.line}: no command {words[1]}"
            options = {
                name for parameter in COMMANDS[words[1]].params for name in parameter.opts + parameter.secondary_opts
            }
            used = {word.partition("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)}
            assert used <= options | {"-h", "--help"}, f"{page.name}:{block.line}: {shlex.join(words)}"


def test_a_block_that_does_not_run_says_why():
    for page in PAGES:
        for block in blocks(page):
            assert block.mark in ("", "run") or re.fullmatch(r"no-run: \w.+", block.mark), f"{page.name}:{block.line}"


def test_no_page_speaks_of_a_folder_or_text_that_users_do_not_have():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        assert "../shared" not in text, page
        assert "the specification" not in text.replace("read as the specification", ""), page


def test_every_link_to_a_page_and_its_heading_leads_there():
    """`make docs` checks the same, and more, where mkdocs is installed."""

    def anchors(page: Path) -> set[str]:
        headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}

    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([\w./-]+\.md)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
            found = page.parent / target
            assert found.exists(), f"{page.name}: {target}"
            explicit = f"#{anchor} }}" in found.read_text(encoding="utf-8")
            assert not anchor or explicit or anchor in anchors(found), f"{page.name}: {target}#{anchor}"
