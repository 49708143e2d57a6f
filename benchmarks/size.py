"""How large the package is, by room: modules and lines of one or more revisions, side by side.

python benchmarks/size.py 7312931 HEAD
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field

PACKAGE = "src/laplacianshot/"
TOP = "(top)"  # modules in no room


@dataclass
class Size:
    """Counts of one revision; modules and lines by room."""

    title: str
    modules: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    public_names: int = 0
    largest: tuple[int, str] = (0, "")

    def add(self, path: str, text: str) -> None:
        room = path.split("/")[0] if "/" in path else TOP
        lines = text.count("\n")
        self.modules[room] += 1
        self.lines[room] += lines
        self.kernels += len(re.findall(r"^@\w*kernel\b", text, re.M))
        self.public_names += count_public_names(path, text)
        self.largest = max(self.largest, (lines, path))


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def count_public_names(path: str, text: str) -> int:
    """Functions and classes without an underscore, of a module without one."""
    if any(part.startswith("_") and part != "__init__.py" for part in path.split("/")):
        return 0
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return sum(isinstance(node, kinds) and not node.name.startswith("_") for node in ast.parse(text).body)


def measure(revision: str) -> Size:
    size = Size(git("log", "-1", "--format=%h", revision).strip())
    for name in git("ls-tree", "-r", "--name-only", revision, "--", PACKAGE).split():
        if name.endswith(".py"):
            size.add(name.removeprefix(PACKAGE), git("show", f"{revision}:{name}"))
    return size


def table(sizes: list[Size]) -> str:
    """Markdown: one row per room, then totals; for each revision its modules and lines."""
    heads = [f"{size.title} {what}" for size in sizes for what in ("modules", "lines")]
    rows = [["room", *heads], ["---", *("---:" for _ in heads)]]
    for room in sorted({room for size in sizes for room in size.modules}):
        cells = [f"{count[room]:,}" if room in count else "" for size in sizes for count in (size.modules, size.lines)]
        rows.append([room, *cells])
    totals = [f"**{count.total():,}**" for size in sizes for count in (size.modules, size.lines)]
    rows.append(["**all**", *totals])
    for what, values in (
        ("kernels", [f"{size.kernels}" for size in sizes]),
        ("functions and classes without an underscore", [f"{size.public_names}" for size in sizes]),
        ("lines of the largest module", [f"{size.largest[0]:,}" for size in sizes]),
    ):
        rows.append([what, *(cell for value in values for cell in ("", value))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", default=["HEAD"])
    print(table([measure(revision) for revision in parser.parse_args().revisions]))


if __name__ == "__main__":
    main()
