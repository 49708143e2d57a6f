"""How large the package is: modules, lines and kernels by room, of one or more revisions.

python benchmarks/size.py 7312931 HEAD
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import Counter

PACKAGE = "src/laplacianshot/"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def modules(revision: str) -> dict[str, str]:
    """Text of each Python module of the package, by its path below the package."""
    names = git("ls-tree", "-r", "--name-only", revision, "--", PACKAGE).split()
    return {name.removeprefix(PACKAGE): git("show", f"{revision}:{name}") for name in names if name.endswith(".py")}


def public_names(path: str, text: str) -> int:
    """Functions and classes without an underscore, of a module without one."""
    if any(part.startswith("_") and part != "__init__.py" for part in path.split("/")):
        return 0
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return sum(isinstance(node, kinds) and not node.name.startswith("_") for node in ast.parse(text).body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", default=["HEAD"])
    for revision in parser.parse_args().revisions:
        counts, lines = Counter[str](), Counter[str]()
        names = kernels = 0
        largest = ("", 0)
        for path, text in modules(revision).items():
            room = path.split("/")[0]
            counts[room] += 1
            lines[room] += text.count("\n")
            names += public_names(path, text)
            kernels += len(re.findall(r"^@\w*kernel\b", text, re.M))
            largest = max(largest, (path, text.count("\n")), key=lambda one: one[1])
        print(f"\n{git('log', '-1', '--format=%h %s', revision).strip()}\n")
        print("| room | modules | lines |\n|---|---|---|")
        for room in sorted(counts):
            print(f"| {room} | {counts[room]} | {lines[room]:,} |")
        print(f"| **all** | **{counts.total()}** | **{lines.total():,}** |")
        print(f"\n{kernels} kernels, {names} functions and classes without an underscore, largest module {largest[0]}")
        print(f"({largest[1]} lines).")


if __name__ == "__main__":
    main()
