"""The page on networks: its code runs, and its figures are those of the command that it names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import torch

from laplacianshot.embedding import NETWORKS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "guide" / "networks.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_does_what_its_comment_says():
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    defined: dict[str, object] = {"__name__": "page"}
    exec(block, defined)
    features, logits = defined["features"], defined["logits"]
    assert isinstance(features, torch.Tensor)
    assert isinstance(logits, torch.Tensor)
    assert block.rstrip().endswith(f"# 1600, {tuple(features.shape)}, {tuple(logits.shape)}")


def test_the_table_of_the_page_is_what_the_command_prints():
    command = [sys.executable, ROOT / "benchmarks" / "networks.py"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.splitlines()
    assert len(printed) == len(NETWORKS) + 2
    assert "`python benchmarks/networks.py`" in PAGE
    for line in printed:
        assert any(row.startswith(line) for row in PAGE.splitlines()), line


def test_the_page_says_of_every_network_what_is_changed():
    rows = PAGE.split("## What is changed")[1].splitlines()
    listed = {
        name for row in rows if row.startswith("| `") for name in re.findall(r"`([a-z0-9_]+)`", row.split("|")[1])
    }
    assert listed == set(NETWORKS)
