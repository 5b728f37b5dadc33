"""Plots as inline SVG, and the page around them: one HTML file that needs nothing else."""

import html
import math

COLORS = ["#2a6fbb", "#d1495b", "#3a9b5c", "#e0a030", "#7b5ea7", "#5c6770"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 88, 150, 34, 44


def text(x, y, words, anchor="middle", turn=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor" {turn}>'
            f"{html.escape(str(words))}</text>")


def svg(parts):
    return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="11" '
            f'font-family="sans-serif">{"".join(parts)}</svg>')


def ticks(low, high, logarithmic=False):
    """Round numbers from low to high: 1, 2 and 5 times powers of ten, or those powers alone."""
    if logarithmic:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digits in ((1, 2, 5), (1,)):
            found = [digit * 10.0 ** power for power in powers for digit in digits
                     if low <= digit * 10.0 ** power <= high]
            if len(found) <= 6:
                break
        return found
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(digit * power for digit in (1, 2, 5, 10) if (high - low) / 4 <= digit * power)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def legend(names):
    x = WIDTH - RIGHT + 14
    parts = []
    for i, name in enumerate(names):
        y = TOP + 14 + 18 * i
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLORS[i]}"/>')
        parts.append(text(x + 16, y, name, "start"))
    return parts


def axes(x_label, y_label):
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    middle = (TOP + bottom) / 2
    return [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>',
            text((LEFT + right) / 2, HEIGHT - 6, x_label),
            text(14, middle, y_label, turn=f'transform="rotate(-90 14 {middle:.0f})"')]


def lines(series, x_label, y_label, x_text, y_text, y_from_zero=False):
    """series: {name: [(x, y), ...]}; x logarithmic, y too unless it starts from zero."""
    points = [point for values in series.values() for point in values]
    xs = sorted({x for x, _ in points})
    ys = [y for _, y in points]
    low, high = (0, max(ys) * 1.1) if y_from_zero else (min(ys) / 1.3, max(ys) * 1.3)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def at_x(x):
        return LEFT + 12 + (right - LEFT - 24) * math.log(x / xs[0]) / math.log(xs[-1] / xs[0])

    def at_y(y):
        if y_from_zero:
            return bottom - (bottom - TOP) * y / high
        return bottom - (bottom - TOP) * math.log(y / low) / math.log(high / low)

    parts = axes(x_label, y_label)
    shown = -math.inf
    for x in xs:  # as many as have room beside each other
        if at_x(x) - shown >= 52:
            parts.append(text(at_x(x), bottom + 16, x_text(x)))
            shown = at_x(x)
    for y in ticks(low, high, not y_from_zero):
        parts.append(text(LEFT - 6, at_y(y) + 4, y_text(y), "end"))
        parts.append(f'<path d="M{LEFT} {at_y(y):.1f}H{right}" stroke="currentColor" '
                     'stroke-opacity=".15"/>')
    for i, values in enumerate(series.values()):
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in values)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[i]}" '
                     'stroke-width="2"/>')
        parts += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{COLORS[i]}"/>'
                  for x, y in values]
    return svg(parts + legend(series))


def bars(rows, parts_of_bar, x_label, x_text):
    """Horizontal stacked bars. rows: {name: [one value per part]}."""
    longest = max(sum(values) for values in rows.values()) * 1.05
    left, right, bottom = LEFT + 60, WIDTH - RIGHT, HEIGHT - BOTTOM
    step = (bottom - TOP) / len(rows)
    parts = [f'<path d="M{left} {TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>',
             text((left + right) / 2, HEIGHT - 6, x_label)]
    for value in ticks(0, longest):
        parts.append(text(left + (right - left) * value / longest, bottom + 16, x_text(value)))
    for row, (name, values) in enumerate(rows.items()):
        y = TOP + step * row + step * 0.15
        parts.append(text(left - 6, y + step * 0.4, name, "end"))
        x = left
        for i, value in enumerate(values):
            width = (right - left) * max(value, 0) / longest
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                         f'height="{step * 0.7:.1f}" fill="{COLORS[i]}"/>')
            x += width
    return svg(parts + legend(parts_of_bar))


def dots(rows, x_label, x_text, own, logarithmic=False):
    """One value per row, written beside its dot; those whose name begins with `own` stand out.
    rows: {name: value}; the axis starts at zero unless it is logarithmic."""
    left, right, bottom = LEFT + 90, WIDTH - 90, HEIGHT - BOTTOM
    values = list(rows.values())
    low, high = (min(values) / 2, max(values) * 1.3) if logarithmic else (0, max(values) * 1.05)

    def at_x(x):
        part = math.log(x / low) / math.log(high / low) if logarithmic else x / high
        return left + (right - left) * part

    parts = [f'<path d="M{left} {TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>',
             text((left + right) / 2, HEIGHT - 6, x_label)]
    for tick in ticks(low, high, logarithmic):
        parts.append(text(at_x(tick), bottom + 16, x_text(tick)))
        parts.append(f'<path d="M{at_x(tick):.1f} {TOP}V{bottom}" stroke="currentColor" '
                     'stroke-opacity=".15"/>')
    step = (bottom - TOP) / len(rows)
    for i, (name, value) in enumerate(rows.items()):
        y = TOP + step * (i + 0.5)
        color = COLORS[0] if name.startswith(own) else COLORS[5]
        parts.append(text(left - 8, y + 4, name, "end"))
        parts.append(f'<path d="M{left} {y:.1f}H{at_x(value):.1f}" stroke="{color}" '
                     f'stroke-width="2"/><circle cx="{at_x(value):.1f}" cy="{y:.1f}" r="5" '
                     f'fill="{color}"/>')
        parts.append(text(at_x(value) + 10, y + 4, x_text(value), "start"))
    return svg(parts)


def standalone(plot, title):
    """A plot as a file of its own: readable on light and on dark pages."""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" ')
    style = ("<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}"
             f"</style><title>{html.escape(title)}</title>")
    above = f'<g font-weight="bold" font-size="13">{text(WIDTH / 2, 20, title)}</g>'
    return plot.replace("<svg ", head, 1).replace(">", f">{style}{above}", 1) + "\n"


def html_table(rows):
    cells = ["".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
             for tag, row in (("th" if i == 0 else "td", row) for i, row in enumerate(rows))]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in cells) + "</table>"


def page(title, sections):
    """sections: [(heading, plots and tables as HTML), ...]."""
    style = (":root{color-scheme:light dark}"
             "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
             "svg{width:100%;max-width:46em}table{white-space:nowrap;display:block;overflow-x:auto}"
             "td,th{padding:.2em .7em;text-align:right;"
             "border-bottom:1px solid #8884}td:first-child,th:first-child{text-align:left}"
             "table{border-collapse:collapse}")
    body = "".join(f"<h2>{html.escape(heading)}</h2>{content}" for heading, content in sections)
    return (f'<!DOCTYPE html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<title>{html.escape(title)}'
            f"</title><style>{style}</style><h1>{html.escape(title)}</h1>{body}</html>\n")
