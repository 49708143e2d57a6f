"""How often the rule for texts that are not in English speaks up where it should, and where it should not.

English: sentences of the data folder (columns ``text``), as whole files and in windows of a few texts. Other languages:
the translations of Django's messages with four words and more, if Django is installed (``pip install django``).

    python benchmarks/labeling/language.py data/banking77 data/snips data/goemotions
"""

from __future__ import annotations

import csv
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from laplacianshot.labeling.language import mostly_foreign

WINDOWS = (5, 20, 100)
_MESSAGE = re.compile(r'^msgstr "(.*)"((?:\n".*")*)', re.MULTILINE)
_MARKUP = re.compile(r"%\(?\w*\)?[sd]|<[^>]*>|&\w+;|\\n")


def english(folder: Path) -> None:
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            texts = [row["text"] for row in csv.DictReader(file)]
        said = [f"whole {'ALARM' if mostly_foreign(texts) else 'silent'}"]
        for size in WINDOWS:
            parts = [texts[start : start + size] for start in range(0, len(texts) - size + 1, size)]
            said.append(f"{sum(map(mostly_foreign, parts))} of {len(parts):,} windows of {size}")
        print(f"{folder.name}/{path.name}, {len(texts):,} texts: {', '.join(said)}")


def translated(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = [match[1] + "".join(re.findall(r'\n"(.*)"', match[2])) for match in _MESSAGE.finditer(text)][1:]
    plain = [_MARKUP.sub(" ", one) for one in found]
    return [one for one in plain if len(one.split()) >= 4]


def others() -> None:
    spec = find_spec("django")
    if spec is None or spec.origin is None:
        print("Django is not installed: no texts in other languages.")
        return
    root = Path(spec.origin).parent
    noticed: list[str] = []
    missed: list[str] = []
    n_alarms = 0
    for folder in sorted((root / "conf" / "locale").iterdir()):
        files = root.glob(f"**/locale/{folder.name}/LC_MESSAGES/django.po")
        texts = [text for path in files for text in translated(path)]
        if len(texts) < 20:
            continue
        spoke = mostly_foreign(texts)
        if folder.name.startswith("en"):
            n_alarms += spoke
        else:
            (noticed if spoke else missed).append(folder.name)
    print(f"Django's translations: noticed {len(noticed)} of {len(noticed) + len(missed)} languages; missed: {missed}")
    print(f"English of Django: {n_alarms} alarms")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        english(Path(argument))
    others()
