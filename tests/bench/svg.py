"""Charts as SVG files: lines over a numeric axis, or bars over names. No library.

A series is (name, values), for lines also (name, values, "dashed") or (name, values, "dashed", number of the
colour): values are (x, y) pairs for lines, one number for each name for bars.
"""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 84, 20, 106, 72
LETTER = 6.9  # width of one in the text of names, taken large
COLOURS = [
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#555555",
]  # told apart by colour-blind eyes too


def ticks(low, high, count=6):
    """Round numbers from low or less to high or more: 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        high = low + 1
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    return [round(n * step, 12) for n in range(first, math.ceil(high / step - 1e-9) + 1)]


def number(v):
    """As short as it can be read: 1200000 is 1.2M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(v) >= limit:
            return f"{v / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.4g}{unit}"
    return f"{v:.4g}"


class Axis:
    """Values to places between two ends of the drawing; logarithmic if asked to."""

    def __init__(self, low, high, start, end, log=False):
        self.log, self.start, self.end = log, start, end
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        if self.high <= self.low:
            self.high = self.low + 1

    def __call__(self, v):
        v = math.log10(v) if self.log else v
        return self.start + (v - self.low) / (self.high - self.low) * (self.end - self.start)


class Drawing:
    def __init__(self, title, note):
        self.parts = []
        self.add(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>')
        self.text(LEFT, 26, title, size=17, weight="bold")
        if note:
            self.text(LEFT, 46, note, size=11, fill="#666666")

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, text, size=12, anchor="start", fill="#222222", weight="normal", turn=0):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}"{turned}>{escape(text)}</text>'
        )

    def line(self, x1, y1, x2, y2, stroke="#e2e2e2", width=1.0, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
            f'stroke-width="{width}"{dashed}/>'
        )

    def y_axis(self, label, high):
        """Grid and numbers from 0; returns the axis."""
        at = ticks(0, high)
        axis = Axis(0, at[-1], HEIGHT - BOTTOM, TOP)
        for v in at:
            self.line(LEFT, axis(v), WIDTH - RIGHT, axis(v))
            self.text(LEFT - 8, axis(v) + 4, number(v), anchor="end")
        self.text(20, (TOP + HEIGHT - BOTTOM) / 2, label, anchor="middle", turn=-90)
        return axis

    def x_label(self, label):
        self.line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, stroke="#222222")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, label, anchor="middle")

    def legend(self, series):
        """Rows below the title."""
        x, y = LEFT, 66
        for i, s in enumerate(series):
            width = 26 + LETTER * len(s[0]) + 14
            if x > LEFT and x + width > WIDTH:
                x, y = LEFT, y + 19
            self.line(x, y, x + 20, y, stroke=colour(i, s), width=3, dash=dash(s))
            self.text(x + 26, y + 4, s[0])
            x += width

    def name(self, x, width, name):
        """Below the axis, broken into lines where it would run into the next."""
        rows = [""]
        for word in name.split():
            if rows[-1] and LETTER * len(rows[-1] + " " + word) > width:
                rows.append("")
            rows[-1] = (rows[-1] + " " + word).strip()
        for i, row in enumerate(rows[:3]):
            self.text(x, HEIGHT - BOTTOM + 18 + 14 * i, row, anchor="middle", size=12 if len(rows) == 1 else 11)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
                f'height="{HEIGHT}" '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n' + "\n".join(self.parts) + "\n</svg>\n"
            )


def colour(i, series):
    return COLOURS[(series[3] if len(series) > 3 else i) % len(COLOURS)]


def dash(series):
    return "6 4" if series[2:3] == ("dashed",) else ""


def lines(path, title, x_label, y_label, series, x_ticks=None, log_x=False, note="", dots=True):
    """Lines through (x, y) pairs; the y axis begins at 0."""
    points = [p for s in series for p in s[1]]
    if not points:
        raise ValueError(f"no figures for chart {path!r}")
    d = Drawing(title, note)
    y = d.y_axis(y_label, max(p[1] for p in points) or 1)
    low, high = min(p[0] for p in points), max(p[0] for p in points)
    if x_ticks is None and not log_x:
        x_ticks = ticks(low, high, 8)
        low, high = x_ticks[0], x_ticks[-1]
    x = Axis(low, high, LEFT + 12, WIDTH - RIGHT - 12, log_x)
    for v in x_ticks if x_ticks is not None else sorted({p[0] for p in points}):
        d.line(x(v), HEIGHT - BOTTOM, x(v), HEIGHT - BOTTOM + 5, stroke="#222222")
        d.text(x(v), HEIGHT - BOTTOM + 20, number(v), anchor="middle")
    d.x_label(x_label)
    for i, s in enumerate(series):
        path_points = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in s[1])
        dashed = f' stroke-dasharray="{dash(s)}"' if dash(s) else ""
        d.add(
            f'<polyline points="{path_points}" fill="none" stroke="{colour(i, s)}" stroke-width="2.2" '
            f'stroke-linejoin="round"{dashed}/>'
        )
        for px, py in s[1] if dots else []:
            d.add(f'<circle cx="{x(px):.1f}" cy="{y(py):.1f}" r="3.2" fill="{colour(i, s)}"/>')
    d.legend(series)
    d.save(path)


def bars(path, title, x_label, y_label, names, series, note="", values=True):
    """A group of bars for each name, one for each series."""
    high = max(v for s in series for v in s[1])
    d = Drawing(title, note)
    y = d.y_axis(y_label, high or 1)
    group = (WIDTH - RIGHT - LEFT) / len(names)
    width = group * 0.8 / len(series)
    every = math.ceil(len(names) / 16)
    for n, name in enumerate(names):
        left = LEFT + group * (n + 0.1)
        if n % every == 0:
            d.name(left + group * 0.4, group * every, name)
        for i, s in enumerate(series):
            top = y(s[1][n])
            d.add(
                f'<rect x="{left + i * width:.1f}" y="{top:.1f}" width="{max(width - 1.5, 0.5):.1f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}" fill="{colour(i, s)}"/>'
            )
            if values and width > 26:
                d.text(left + (i + 0.5) * width, top - 5, number(s[1][n]), size=10, anchor="middle")
    d.x_label(x_label)
    d.legend(series)
    d.save(path)
