"""Items on a page: a picture, a text or a name, with the label and how sure it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np

from laplacianshot.labeling.result import GIVEN, REJECTED, LabelResult
from laplacianshot.reports.labeling.map_part import dot
from laplacianshot.reports.text import percentage
from laplacianshot.ui.names import isolated, line, passage, short_path
from laplacianshot.ui.thumbnails import Thumbnail

# A class of a lower probability is not named beside a better one.
_POSSIBLE = 0.005
# Characters of a path that is not shortened.
_WHOLE = 300


@dataclass(frozen=True)
class Shown:
    """What is shown of the items of a result.

    Attributes
    ----------
    result : LabelResult
    pictures : mapping of int to Thumbnail
        Of the items that have one.
    texts : mapping of int to str, or None
        Texts that the items are; None for pictures and vectors.
    """

    result: LabelResult
    pictures: Mapping[int, Thumbnail]
    texts: Mapping[int, str] | None

    @property
    def in_rows(self) -> bool:
        """Whether items are rows of words, not pictures."""
        return not self.pictures

    def listing(
        self, items: Iterable[int], says: Callable[[int], str] | None = None, badge: Callable[[int], str] | None = None
    ) -> str:
        """The items side by side.

        Parameters
        ----------
        items : iterable of int
        says : callable, optional
            HTML below an item; by default its label and how sure it is.
        badge : callable, optional
            A word on an item; by default ``given`` on given ones.
        """
        says = self.label if says is None else says
        badge = self._given if badge is None else badge
        cards = "\n".join(self._card(int(item), says(int(item)), badge(int(item))) for item in items)
        return f'<ul class="items{" rows" if self.in_rows else ""}">\n{cards}\n</ul>'

    def label(self, item: int) -> str:
        """The label and how sure it is; of a rejected item the class that it would have had."""
        result = self.result
        code = int(result.codes[item])
        if result.origins[item] == REJECTED and result.classes:
            probabilities = result.probabilities_of(item)
            best = int(np.argmax(probabilities))
            return self.says(best, percentage(float(probabilities[best])), other=True)
        if code < 0:
            return ""
        sure = "" if result.origins[item] == GIVEN else percentage(float(result.confidence[item]))
        return self.says(code, sure)

    def sure(self, item: int) -> str:
        """How sure the label is, where the label itself is plain."""
        if self.result.origins[item] == GIVEN:
            return ""
        return f'<p class="says"><b>{escape(percentage(float(self.result.confidence[item])))}</b></p>'

    def best_classes(self, item: int, most: int = 2) -> str:
        """The most probable classes, without those that are out of the question."""
        probabilities = self.result.probabilities_of(item)
        best = np.argsort(-probabilities, kind="stable")[:most]
        best = best[(probabilities[best] >= _POSSIBLE) | (np.arange(len(best)) == 0)]
        return "".join(
            self.says(int(code), percentage(float(probabilities[code])), other=place > 0)
            for place, code in enumerate(best)
        )

    def disputed(self, item: int) -> str:
        """The given class, and what the neighbors prefer."""
        given, other = int(self.result.codes[item]), int(self.result.disputes[item])
        probabilities = self.result.probabilities_of(item)
        return (
            f'<p class="quiet part">given</p>{self.says(given, percentage(float(probabilities[given])), other=True)}'
            f'<p class="quiet part">neighbors say</p>{self.says(other, percentage(float(probabilities[other])))}'
        )

    def says(self, code: int, sure: str = "", *, other: bool = False) -> str:
        """A class by its color and name."""
        name = line(self.result.classes[code])
        number = f"<b>{escape(sure)}</b>" if sure else ""
        return (
            f'<p class="says{" other" if other else ""}" title="{escape(name)}">{dot(code)}{isolated(name)}{number}</p>'
        )

    def rank(self, item: int) -> str:
        """The place among what to label next."""
        return str(int(self.result.suggestions[item]))

    def _given(self, item: int) -> str:
        return "given" if self.result.origins[item] == GIVEN else ""

    def _card(self, item: int, says: str, badge: str) -> str:
        name = line(self.result.ids[item])
        mark = f'<span class="badge">{escape(badge)}</span>' if badge else ""
        if self.in_rows:
            words = f"{mark}{isolated(name if self.texts is None else passage(self.texts[item]))}"
            below = "" if self.texts is None else f'<p class="quiet">{isolated(name)}</p>'
            return f'<li class="item"><p class="words">{words}</p><div>{says}{below}</div></li>'
        picture = self.pictures.get(item)
        drawn = ""
        if picture is not None:
            tiny = ' class="tiny"' if picture.tiny else ""
            drawn = f'<img{tiny} src="{picture.src}" alt="" decoding="async">'
        whole = line(self.result.ids[item], _WHOLE)
        # Lines end between folders, if they can.
        path = escape(self._paths.get(item, whole)).replace("/", "/<wbr>")
        return (
            f'<li class="item" title="{escape(whole)}"><div class="frame">{drawn}{mark}</div>{says}'
            f'<p class="quiet path"><bdi>{path}</bdi></p></li>'
        )

    @cached_property
    def _paths(self) -> dict[int, str]:
        """Paths of the pictures, short unless two of them would look the same."""
        short = {item: short_path(self.result.ids[item]) for item in self.pictures}
        alike = Counter(short.values())
        return {item: path if alike[path] == 1 else line(self.result.ids[item], _WHOLE) for item, path in short.items()}
