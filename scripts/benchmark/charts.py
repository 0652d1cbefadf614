"""SVG charts, written by hand: no library, light and dark, readable without colours."""

from html import escape

from .cases import CASES, CLASSIC, MENZIL, MOSQUITTO, QUORUM

SERIES = [(MENZIL, "a"), (CLASSIC, "b"), (QUORUM, "c"), (MOSQUITTO, "b")]
LABEL, PLOT, RIGHT = 330, 450, 130
WIDTH = LABEL + PLOT + RIGHT
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #24292f; }
  .title { font-size: 17px; font-weight: 600; } .sub, .tick { fill: #57606a; } .tick { font-size: 11px; }
  .value { font-size: 12px; font-variant-numeric: tabular-nums; } .paper { fill: #ffffff; } .grid { stroke: #d8dee4; }
  .a { fill: #0f766e; } .b { fill: #d97706; } .c { fill: #7c3aed; } .asked { stroke: #24292f; stroke-width: 2; }
  .stem { stroke-width: 1.5; stroke-opacity: 0.35; } .range { stroke-width: 3; stroke-linecap: round; } .range.a, .stem.a { stroke: #0f766e; } .range.b, .stem.b { stroke: #d97706; } .range.c, .stem.c { stroke: #7c3aed; }
  .line { fill: none; stroke-width: 2; } .line.a { stroke: #0f766e; } .line.b { stroke: #d97706; } .line.c { stroke: #7c3aed; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .sub, .tick { fill: #9198a1; } .paper { fill: #0d1117; } .grid { stroke: #30363d; }
    .a { fill: #2dd4bf; } .b { fill: #fbbf24; } .c { fill: #a78bfa; } .asked { stroke: #e6edf3; }
    .range.a, .stem.a { stroke: #2dd4bf; } .range.b, .stem.b { stroke: #fbbf24; } .range.c, .stem.c { stroke: #a78bfa; }
    .line.a { fill: none; stroke: #2dd4bf; } .line.b { fill: none; stroke: #fbbf24; } .line.c { fill: none; stroke: #a78bfa; }
  }"""


def draw(figures, page):
    """All charts of that page for which there are figures, by name."""
    charts = {"benchmarks": everything, "benchmarks-routing": routing, "benchmarks-mqtt": mqtt}[page]
    return {name: svg for name, svg in charts(figures).items() if svg}


def mqtt(figures):
    return {
        "mqtt-cpu": dots(figures, "CPU seconds per million deliveries", "broker pinned to one core; less is better; logarithmic; | is what was asked", "mqtt-flow", "pinned",
                         "broker_cpu_seconds_per_million", digits=2),
        "mqtt-throughput": bars(figures, "Deliveries per second", "nothing pinned; more is better", "mqtt-flow", "unpinned", "per_second"),
        "mqtt-latency": ranges(figures, "Latency, p50 to p99", "µs, pinned; less is better; logarithmic; | is the p50 that was asked", "mqtt-latency", "pinned"),
    }


def routing(figures):
    return {
        "routing-cost": dots(figures, "One match among many bindings", "CPU seconds per million messages, broker pinned to one core; less is better; logarithmic; | is what was asked",
                             "cost", "pinned", "broker_cpu_seconds_per_million", digits=2),
        "fanout": curve(figures, "Bytes written per published byte", "persistent messages of 2 KB, each to so many queues, consumed; as the disk counted them",
                        "curve", "unpinned", "disk_written_bytes_per_published_byte", "matching queues"),
    }


def everything(figures):
    return {
        "cpu": dots(figures, "CPU seconds per million messages", "broker pinned to one core; less is better; logarithmic; | is what was asked", "throughput", "pinned",
                    "broker_cpu_seconds_per_million", digits=2),
        "throughput": bars(figures, "Messages per second", "nothing pinned; more is better", "throughput", "unpinned", "per_second"),
        "latency": ranges(figures, "Latency, p50 to p99", "µs, pinned; less is better; logarithmic; | is the p50 that was asked", "latency", "pinned"),
        "queues": dots(figures, "Durable load over many queues", "CPU seconds per million messages, pinned; less is better; logarithmic", "queues", "pinned",
                       "broker_cpu_seconds_per_million", digits=2),
        "recovery": dots(figures, "Ready again after SIGKILL", "seconds; less is better; logarithmic; | is what was asked", "recovery", "unpinned", "ready_seconds", digits=2),
        "disk": dots(figures, "Bytes written per published byte", "as the disk counted them; less is better; logarithmic; | is what was asked", "disk", "unpinned",
                     "disk_written_bytes_per_published_byte", digits=2),
    }


def collected(figures, section, mode, figure):
    rows = []
    for case in CASES:
        if case.section != section:
            continue
        values = [(peer, css, figures.median(case.key, mode, peer, figure)) for peer, css in SERIES]
        values = [one for one in values if one[2] is not None and one[2] > 0]
        if values:
            asked = case.asked.get(figure)
            rows.append((case.title, values, asked[1] if asked else None))
    return rows


def bars(figures, title, subtitle, section, mode, figure):
    rows = collected(figures, section, mode, figure)
    if not rows:
        return None
    most = max(value for _, values, _ in rows for _, _, value in values)
    top, step = scale(most)
    sheet = Sheet(title, subtitle, present(rows))
    sheet.begin([(top_part * step / top, short(top_part * step)) for top_part in range(int(top / step) + 1)])
    for name, values, _ in rows:
        y = sheet.row(name, len(values), 16)
        for _, css, value in values:
            width = max(1.5, PLOT * value / top)
            sheet.add(f'<rect class="{css}" x="{LABEL}" y="{y}" width="{width:.1f}" height="12" rx="2"/>')
            sheet.add(f'<text class="value" x="{LABEL + width + 6:.1f}" y="{y + 10.5}">{short(value)}</text>')
            y += 16
    return sheet.end()


def dots(figures, title, subtitle, section, mode, figure, digits):
    rows = collected(figures, section, mode, figure)
    if not rows:
        return None
    place = axis([value for _, values, asked in rows for value in [*(v for _, _, v in values), *([asked] if asked else [])]])
    sheet = Sheet(title, subtitle, present(rows))
    sheet.begin(place.ticks)
    for name, values, asked in rows:
        y = sheet.row(name, len(values), 17)
        if asked:
            x = LABEL + PLOT * place(asked)
            sheet.add(f'<line class="asked" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 1}" y2="{y + 17}"/>')
        for _, css, value in values:
            x = LABEL + PLOT * place(value)
            sheet.add(f'<line class="stem {css}" x1="{LABEL}" x2="{x:.1f}" y1="{y + 8}" y2="{y + 8}"/>')
            sheet.add(f'<circle class="{css}" cx="{x:.1f}" cy="{y + 8}" r="5"/>')
            sheet.add(f'<text class="value" x="{x + 10:.1f}" y="{y + 12.5}">{value:,.{digits}f}</text>')
            y += 17
    return sheet.end()


def curve(figures, title, subtitle, section, mode, figure, along):
    """Lines over the number of queues that a case's `--queues` says; both axes linear."""
    lines = []
    for peer, css in SERIES:
        points = [(int(case.words.split("--queues ")[1].split()[0]), figures.median(case.key, mode, peer, figure)) for case in CASES if case.section == section]
        points = [point for point in points if point[1] is not None]
        if points:
            lines.append((peer, css, points))
    if not lines:
        return None
    left, right, top, height = 70, 60, 100, 300
    width = WIDTH - left - right
    top_x = max(x for _, _, points in lines for x, _ in points)
    top_y, step = scale(max(y for _, _, points in lines for _, y in points))

    def place(x, y):
        return left + width * x / top_x, top + height * (1 - y / top_y)

    sheet = Sheet(title, subtitle, [(peer, css) for peer, css, _ in lines])
    for part in range(round(top_y / step) + 1):
        y = place(0, part * step)[1]
        sheet.add(f'<line class="grid" x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        sheet.add(f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{part * step:g}</text>')
    for x in sorted({x for _, _, points in lines for x, _ in points}):
        sheet.add(f'<text class="tick" x="{place(x, 0)[0]:.1f}" y="{top + height + 18}" text-anchor="middle">{x}</text>')
    sheet.add(f'<text class="sub" x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">{escape(along)}</text>')
    for _, css, points in lines:
        places = [place(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        sheet.add(f'<polyline class="line {css}" points="{path}"/>')
        sheet.body += [f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places]
        x, y = places[-1]
        sheet.add(f'<text class="value" x="{x + 8:.1f}" y="{y + 4:.1f}">{points[-1][1]:,.1f}</text>')
    sheet.y, sheet.ticks, sheet.grid_at, sheet.grid_from = top + height + 30, [], 0, top
    return sheet.end()


def ranges(figures, title, subtitle, section, mode):
    rows = collected(figures, section, mode, "latency_p50_ns")
    if not rows:
        return None
    keys = {case.title: case for case in CASES}
    highs = {(name, peer): figures.median(keys[name].key, mode, peer, "latency_p99_ns") for name, values, _ in rows for peer, _, _ in values}
    place = axis([value / 1e3 for _, values, _ in rows for _, _, value in values] + [high / 1e3 for high in highs.values() if high]
                 + [asked / 1e3 for _, _, asked in rows if asked])
    sheet = Sheet(title, subtitle, present(rows))
    sheet.begin(place.ticks)
    for name, values, asked in rows:
        y = sheet.row(name, len(values), 18)
        if asked:
            x = LABEL + PLOT * place(asked / 1e3)
            sheet.add(f'<line class="asked" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 16}"/>')
        for peer, css, value in values:
            low, high = value / 1e3, (highs[name, peer] or value) / 1e3
            x, end = LABEL + PLOT * place(low), LABEL + PLOT * place(high)
            sheet.add(f'<line class="range {css}" x1="{x:.1f}" x2="{end:.1f}" y1="{y + 8}" y2="{y + 8}"/>')
            sheet.add(f'<circle class="{css}" cx="{x:.1f}" cy="{y + 8}" r="5"/>')
            sheet.add(f'<text class="value" x="{end + 8:.1f}" y="{y + 12}">{low:,.0f} – {high:,.0f}</text>')
            y += 18
    return sheet.end()


class Sheet:
    """A chart under construction, from the top down."""

    def __init__(self, title, subtitle, peers):
        self.body = []
        self.title = title
        self.add(f'<text class="title" x="16" y="30">{escape(title)}</text>')
        self.add(f'<text class="sub" x="16" y="50">{escape(subtitle)}</text>')
        x = 16
        for peer, css in peers:
            self.add(f'<circle class="{css}" cx="{x + 5}" cy="70" r="5"/><text x="{x + 16}" y="74.5">{escape(peer)}</text>')
            x += 34 + 7.4 * len(peer)
        self.y = 104

    def add(self, text):
        self.body.append(text)

    def begin(self, ticks):
        """Puts the grid's place, to be drawn once the height is known."""
        self.ticks, self.grid_at, self.grid_from = ticks, len(self.body), self.y - 6

    def row(self, name, lines, height):
        lines = max(1, lines)
        top, whole = self.y, lines * height
        words = wrapped(name, 42)
        for index, line in enumerate(words):
            y = top + whole / 2 + 4 + 15 * (index - (len(words) - 1) / 2) - (1 if lines > 1 else 0)
            self.add(f'<text x="{LABEL - 12}" y="{y:.1f}" text-anchor="end">{escape(line)}</text>')
        self.y = top + max(whole, 15 * len(words)) + 12
        return top

    def end(self):
        bottom = self.y - 4
        grid = []
        for part, text in self.ticks:
            x = LABEL + PLOT * part
            grid.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.grid_from}" y2="{bottom}"/>')
            grid.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>')
        self.body[self.grid_at:self.grid_at] = grid
        height = bottom + 30
        lines = "\n  ".join(self.body)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img">\n'
                f"  <title>{escape(self.title)}</title>\n  <style>{STYLE}\n  </style>\n"
                f'  <rect class="paper" width="{WIDTH}" height="{height:.0f}" rx="8"/>\n  {lines}\n</svg>\n')


def present(rows):
    peers = {peer for _, values, _ in rows for peer, _, _ in values}
    return [(peer, css) for peer, css in SERIES if peer in peers]


def wrapped(text, most):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def axis(values):
    """A logarithmic axis over whole powers of ten, wide enough for all values."""
    import math

    low = math.floor(math.log10(min(values)) - 0.05)
    high = math.ceil(math.log10(max(values)) + 0.05)

    def place(value):
        return (math.log10(value) - low) / (high - low)

    place.ticks = [((power - low) / (high - low), f"{10.0 ** power:,.0f}" if power >= 0 else f"{10.0 ** power:g}") for power in range(low, high + 1)]
    return place


def scale(most):
    """The end of a linear axis and the distance of its ticks."""
    import math

    step = 10 ** math.floor(math.log10(most))
    for part in (0.2, 0.25, 0.5, 1):
        if most / (step * part) <= 6:
            step *= part
            break
    return math.ceil(most / step) * step, step


def short(value):
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
