"""Put what ``laplacianshot reproduce`` found with Conv4 on one page.

The runs come first, one after the other; then this takes their commands, times and tables from their reports.

    laplacianshot reproduce omniglot --data data -o runs/omniglot
    laplacianshot reproduce cub-conv4 --data data -o runs/cub-conv4
    laplacianshot reproduce cub-conv4-to-cifarfs --data data -o runs/cub-conv4
    python benchmarks/conv4.py --runs runs --output docs/results/conv4.md
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

HEAD = """# Conv4 from pictures to tables

The small network of the few-shot literature, trained here on two processor cores by the commands below. Other work of
ours was running beside it, so times are upper limits. Every method of `evaluate` saw the same tasks: 10,000 of each
kind, 1,000 for TIM, alpha-TIM and LabelSpreading. Lambda and k of *paper* and *reference* were tuned on validation and
base classes. w: classes, s: labels per class. Composed from the reports of the runs by
`python benchmarks/conv4.py --runs runs --output docs/results/conv4.md`.
"""


def section(report: str, title: str) -> str:
    """What a report says under a title that begins so, without the title."""
    found = re.search(rf"^## {re.escape(title)}[^\n]*\n(.*?)(?=^## |\Z)", report, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"there is no section {title!r}")
    return found.group(1).strip()


def run_part(title: str, command: str, folder: Path, published: bool, remarks: str) -> list[str]:
    report = (folder / "report.md").read_text(encoding="utf-8")
    steps = json.loads((folder / "run.json").read_text(encoding="utf-8"))["steps"]
    times = ", ".join(f"{step['step']} {step['seconds'] / 60:.1f} min" for step in steps)
    lines = [f"## {title}", "", f"```console\n$ {command}\n```", "", f"Time: {times}.", "", remarks, ""]
    if published:
        for setting in ("5-way 1-shot, balanced", "5-way 5-shot, balanced"):
            name = f"Beside published figures, CUB, Conv4: {setting}"
            lines += [f"### {name}", "", section(report, name), ""]
    return [*lines, "### Accuracy, %", "", section(report, "Accuracy, %"), ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    lines = [HEAD]
    lines += run_part(
        "CUB, 84 pixels",
        "laplacianshot reproduce cub-conv4 --data data -o runs/cub-conv4",
        args.runs / "cub-conv4" / "report",
        True,
        "Trained on the 100 base classes of CUB, tested on the 50 novel ones.",
    )
    lines += run_part(
        "Omniglot, 28 pixels",
        "laplacianshot reproduce omniglot --data data -o runs/omniglot",
        args.runs / "omniglot" / "report",
        False,
        "Trained on the background alphabets, tested on the 659 characters of the evaluation alphabets. A character "
        "has 20 drawings: with 5 labels and 15 queries per class none are left, so that the Dirichlet column with 5 "
        "labels is balanced in truth, and the one with 1 label nearly so.",
    )
    lines += run_part(
        "Across domains: from CUB to CIFAR-FS",
        "laplacianshot reproduce cub-conv4-to-cifarfs --data data -o runs/cub-conv4",
        args.runs / "cub-conv4" / "report-cifarfs",
        False,
        "The network, the base mean and the constants of CUB on tasks of the CIFAR-FS test classes, pictures of "
        "32 pixels enlarged.",
    )
    args.output.write_text("\n".join(lines), encoding="utf-8")
    print(f"{args.output} is written")


if __name__ == "__main__":
    main()
