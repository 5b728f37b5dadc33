"""What a benchmark publishes: tables on the terminal and in docs/, and a page with plots.

`parts` is {marker: (heading, tables, [(title, plot)])}; the first row of a table is its header.
"""

import pathlib

import harness
import plots


def add_options(parser, page):
    parser.add_argument("--page", type=pathlib.Path, default=page,
                        help="where the page goes; default: %(default)s")
    parser.add_argument("--docs", type=pathlib.Path, help="update the tables of this file")


def milliseconds(seconds):
    return f"{seconds * 1e3:.1f} ms" if abs(seconds) >= 1e-3 else f"{seconds * 1e6:.1f} us"


def size_text(value):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} B"


def markdown(rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "| --- |" + " ---: |" * (len(rows[0]) - 1), *lines[1:]])


def write_docs(path, parts):
    """Replaces what stands between "<!-- NAME -->" and "<!-- end NAME -->"."""
    document = path.read_text()
    for name, (_, tables, _) in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        head, rest = document.split(begin)
        tail = rest.split(end)[1]
        body = "\n\n".join(markdown(table) for table in tables)
        document = f"{head}{begin}\n{body}\n\n{end}{tail}"
    path.write_text(document)


def write_page(path, title, parts):
    contents = [(heading, "".join(f"<h3>{name}</h3>{plot}" for name, plot in figures)
                 + "".join(plots.html_table(table) for table in tables))
                for heading, tables, figures in parts.values()]
    facts = harness.machine()
    contents.append(("The machine", plots.html_table([["what", "value"], *facts.items()])))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plots.page(title, contents))


def publish(title, parts, options):
    """Prints the tables and writes what the options ask for."""
    for heading, tables, _ in parts.values():
        for rows in tables:
            print(f"\n{heading}\n")
            harness.table(rows[0], rows[1:])
    write_page(options.page, title, parts)
    if options.docs:
        write_docs(options.docs, parts)
