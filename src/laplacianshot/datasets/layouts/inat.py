"""meta-iNat: animal species of iNaturalist 2017 with few and many pictures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from laplacianshot.datasets._listing import Listing, Record

DESCRIPTION = (
    "meta-iNat, 1,135 animal species of iNaturalist 2017 with 50 to 1,000 pictures each, 908 base and 227 novel "
    "(Wertheimer and Hariharan, 2019). Expected: DATA/train_2017_bboxes.json and the pictures it names, below "
    "DATA/train_val_images, as given out by the iNaturalist competition of 2017 (Visipedia). The published lists of "
    "classes are random: put the novel ones, one category id or name a line, into DATA/novel_classes.txt. Without that "
    "file every fifth category by id is novel: as many classes, but others than in the published figures."
)
FEWEST, MOST = 50, 1000


def find(data: Path) -> Listing:
    """meta-iNat, with its numbers of classes checked."""
    instead = "take the annotations with boxes of 2017, whole."
    return find_species(data, FEWEST, MOST).expect_classes("inat", {"base": 908, "novel": 227}, instead)


def find_species(data: Path, fewest: int, most: int) -> Listing:
    """The pictures of the species that have between ``fewest`` and ``most``, by picture id."""
    table = data / "train_2017_bboxes.json"
    if not table.is_file():
        raise FileNotFoundError(f"{data}: there is no {table.name}. Expected: {DESCRIPTION}")
    try:
        content: dict[str, Any] = json.loads(table.read_text(encoding="utf-8"))
        names = {int(row["id"]): str(row["name"]) for row in content["categories"]}
        paths = {int(row["id"]): str(row["file_name"]) for row in content["images"]}
        # A picture has several boxes, all of one species.
        species = {int(row["image_id"]): int(row["category_id"]) for row in content["annotations"]}
        counts = Counter(species.values())
        chosen = [number for number in sorted(names) if fewest <= counts[number] <= most]
        novel = _novel(data / "novel_classes.txt", names, chosen)
        class_of = {number: f"{number:04d} {names[number]}" for number in chosen}
        records = [
            Record(paths[picture], class_of[number], "novel" if number in novel else "base")
            for picture, number in sorted(species.items())
            if number in class_of
        ]
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{table} is not an annotation file of iNaturalist ({error!r}). {DESCRIPTION}") from error
    return Listing.of_files(data, records, class_of.values())


def _novel(file: Path, names: dict[int, str], chosen: list[int]) -> set[int]:
    if not file.is_file():
        return set(chosen[4::5])
    numbers = {names[number]: number for number in chosen} | {str(number): number for number in chosen}
    wanted = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    unknown = [line for line in wanted if line not in numbers]
    if unknown:
        raise ValueError(f"{file}: {unknown[0]!r} is neither the id nor the name of one of the chosen species.")
    return {numbers[line] for line in wanted}
