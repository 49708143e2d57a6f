"""CUB-200-2011 in its own layout, split by class as the few-shot literature does."""

from __future__ import annotations

from pathlib import Path

from laplacianshot.datasets._listing import Listing, Record

DESCRIPTION = (
    "CUB-200-2011, 11,788 pictures of 200 bird species. Expected: DATA/images.txt, DATA/image_class_labels.txt, "
    "DATA/classes.txt and DATA/images, as in the archive CUB_200_2011 of Caltech's vision group (CaltechDATA, for "
    "non-commercial research). DATA may also be the folder that holds CUB_200_2011."
)


def split_of_class(i: int) -> str:
    """The split of the class of zero-based number i: even ones base, of the odd ones every other val and novel.

    The rule of Chen et al. (A closer look at few-shot classification, 2019): 100, 50 and 50 of the 200 classes.
    """
    return ("base", "val", "base", "novel")[i % 4]


def find(data: Path) -> Listing:
    """The pictures in the order of their numbers."""
    root = data / "CUB_200_2011" if (data / "CUB_200_2011").is_dir() else data
    missing = [name for name in ("images.txt", "image_class_labels.txt", "classes.txt") if not (root / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{data}: there is no {missing[0]}. Expected: {DESCRIPTION}")
    paths = _numbered(root / "images.txt")
    classes = _numbered(root / "classes.txt")
    class_of = _numbered(root / "image_class_labels.txt")
    numbers = {name: i for i, name in enumerate(classes)}
    records = []
    for number, path in paths.items():
        name = classes.get(class_of.get(number, ""))
        if name is None:
            raise ValueError(f"{root / 'image_class_labels.txt'}: picture {number} of images.txt has no class there.")
        records.append(Record(f"images/{path}", name, split_of_class(numbers[class_of[number]])))
    listing = Listing.of_files(root, records, classes.values())
    return listing.expect_classes("cub", {"base": 100, "val": 50, "novel": 50}, "for other classes choose 'folder'.")


def _numbered(table: Path) -> dict[str, str]:
    """Lines ``NUMBER REST``."""
    rows: dict[str, str] = {}
    for line, text in enumerate(table.read_text(encoding="utf-8").splitlines(), start=1):
        if not text.strip():
            continue
        number, _, rest = text.partition(" ")
        if not rest or number in rows:
            raise ValueError(f"{table}, line {line}: expected a number of its own and a name, got {text!r}.")
        rows[number] = rest
    return rows
