"""Shapes of an SVG drawing. Colours and line styles are classes, which diagram.css gives to both themes."""

from collections.abc import Iterable
from html import escape


class Canvas:
    """A drawing of so many units; one is a little over a pixel where the page has room.

    Classes of shapes: "used" (blue, filled), "wasted" (orange, filled), "idle" (dashed), "plain", "strong" (thick), "soft"
    and "faint" (outlines). What a colour says, a number or a word says too. Of a text: "small", "bold", or none.
    """

    def __init__(self, width: float, height: float):
        self.width, self.height = width, height
        self.elements: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str = "plain", round: float = 2) -> None:
        self._add("rect", x=x, y=y, width=width, height=height, rx=round, kind=kind)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "soft") -> None:
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, kind=kind)

    def lines(self, ends: Iterable[tuple[float, float, float, float]], kind: str = "soft") -> None:
        """Many as one element, which takes a quarter of the room."""
        places = (tuple(map(_short, one)) for one in ends)
        self._add("path", d="".join(f"M{x1} {y1}L{x2} {y2}" for x1, y1, x2, y2 in places), kind=kind)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, kind: str = "plain") -> None:
        """A line with a head at its end."""
        length = max(1e-9, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        left, right = ((x2 - 7 * dx - side * 3.5 * dy, y2 - 7 * dy + side * 3.5 * dx) for side in (1, -1))
        points = " ".join(f"{_short(x)},{_short(y)}" for x, y in ((x2, y2), left, right))
        self._add("line", x1=x1, y1=y1, x2=x2 - 5 * dx, y2=y2 - 5 * dy, kind=kind)
        self.elements.append(f'<polygon points="{points}" class="{kind}"/>')

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        """Words whose line has its middle at y."""
        other = {} if anchor == "middle" else {"text_anchor": anchor}  # as the drawing says
        self._add("text", escape(words), x=x, y=y, **other, kind=kind)

    def _add(self, name: str, inside: str = "", *, kind: str, **attributes: float | str) -> None:
        values = {"class": kind} if kind else {}
        values |= {key.replace("_", "-"): _short(value) for key, value in attributes.items()}
        written = " ".join(f'{key}="{value}"' for key, value in values.items())
        self.elements.append(f"<{name} {written}>{inside}</{name}>" if inside else f"<{name} {written}/>")


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
