#!/usr/bin/env python3
"""When to all-reduce, how much at a time, and how: ddp-bench's measurements, PyTorch's beside them.

Writes a page with plots (--page) and, with --docs, the tables between the markers of that file:
docs/overlap.md is made with --docs docs/overlap.md. The sides take turns; medians are shown.
"""

import json
import pathlib
import statistics
import tempfile

import harness
import plots
import published
from published import milliseconds, size_text

GPT = ["--model", "gpt", "--sizes", "256", "4", "4", "--batch", "1", "--sequence", "64"]
TOY = ["--model", "mlp", "--sizes", "10", "10", "5", "--batch", "32", "--optimizer", "sgd"]
BUCKETS = ["--buckets_mb", "0.125", "0.5", "1", "2", "4", "8", "16"]
MODES = ["no communication", "none", "step", "backward", "both"]
SPLIT = ["forward", "backward", "update"]


def merge(runs):
    """The median over several runs of one measurement, result by result."""
    merged = runs[0]
    for i, result in enumerate(merged["results"]):
        for key, value in result.items():
            if isinstance(value, float):
                result[key] = statistics.median(run["results"][i][key] for run in runs)
    return merged


def by_name(report):
    return {result["name"]: result for result in report["results"]}


class Bench:
    """Runs ddp-bench and its peers, each a process per rank."""

    def __init__(self, options, folder):
        self.options = options
        self.json = pathlib.Path(folder) / "result.json"

    def own(self, ranks, *words):
        argv = [*harness.ddprun(self.options, ranks), "--no_python",
                self.options.bin / "ddp-bench", "--json", self.json, *words]
        harness.output([str(word) for word in argv])
        return json.loads(self.json.read_text())

    def torch(self, ranks, *words):
        script = harness.ROOT / "benchmarks/peers/ddp_step.py"
        argv = [*harness.torchrun(ranks), script, *words]
        lines = harness.output([str(word) for word in argv]).splitlines()
        return json.loads(next(line for line in lines if line.startswith("{")))

    def in_turns(self, *sides):
        """sides: functions that measure; each is called once a round."""
        runs = [[] for _ in sides]
        for _ in range(self.options.rounds):
            for side, results in zip(sides, runs):
                results.append(side())
        return [merge(results) for results in runs]


def measure(options, folder):
    bench = Bench(options, folder)
    with_torch = harness.measures_torch(options)
    steps = ("--rounds", "3", "--steps", "3")
    results = {"allreduce": [], "overlap": [], "buckets": [], "overhead": []}
    for ranks in options.ranks:
        results["allreduce"] += bench.in_turns(
            lambda n=ranks: bench.own(n, "allreduce", "--rounds", "3", "--seconds", "0.05"))
        for link in [0, *options.links]:
            words = [*GPT, *steps, "--link_gigabit", link]
            peer = [] if link else ["--torch"]
            own = [lambda n=ranks, w=(*words, "--bucket_mb", 2, *peer):
                   bench.own(n, "overlap", *w)]
            if link == 0 and with_torch:
                own.append(lambda n=ranks, s=steps: bench.torch(n, *GPT, *s, "--buckets_mb", 2))
            results["overlap"].append(bench.in_turns(*own))
        if ranks == 2:
            for link in [0, *options.links]:
                words = [*GPT, *steps, "--link_gigabit", link]
                results["buckets"] += bench.in_turns(
                    lambda n=ranks, w=words: bench.own(n, "buckets", *w, *BUCKETS))
            toy = ("--rounds", "5", "--steps", "400")
            both = [lambda n=ranks: bench.own(n, "overhead", *TOY[:-2], *toy),
                    lambda n=ranks: bench.torch(n, *TOY, *toy)]
            results["overhead"].append(bench.in_turns(*both[:2 if with_torch else 1]))
    return results


def allreduce_table(report):
    names = list(dict.fromkeys(result["algorithm"] for result in report["results"]))
    times = {(result["bytes"], result["algorithm"]): result["seconds"]
             for result in report["results"]}
    rows = [[f"all-reduce, {report['ranks']} ranks", *names, "best of the others / direct"]]
    for size in dict.fromkeys(size for size, _ in times):
        others = min(times[size, name] for name in names if name != "direct")
        rows.append([size_text(size), *(milliseconds(times[size, name]) for name in names),
                     harness.ratio(times[size, "direct"], others)])
    return rows


def medium(report):
    link = report.get("link_gigabit", 0)
    if "mbit" in report:
        return f"two hosts, {report['mbit'] / 1000:g} Gbit/s"
    return f"a link of {link:g} Gbit/s (emulated)" if link else "shared memory"


def overlap_table(own, torch=None):
    rows = [[f"{own['ranks']} ranks, {medium(own)}", "backward", "update", "all-reduce alone",
             "waited", "step", "exposed"]]
    for result in own["results"]:
        communicates = result["name"] != "no communication"
        rows.append([
            result["name"], milliseconds(result["backward"]), milliseconds(result["update"]),
            milliseconds(result["all_reduce"]) if result["buckets"] else "-",
            milliseconds(result["waited"]) if communicates and result["waited"] >= 0 else "-",
            milliseconds(result["step"]),
            milliseconds(result["exposed"]) if communicates else "-"])
    for result in torch["results"] if torch else []:
        name = "alone" if result["name"] == "no communication" else "DDP + Gloo"
        rows.append([f"PyTorch, {name}", milliseconds(result["backward"]),
                     milliseconds(result["update"]), "-", "-", milliseconds(result["step"]),
                     milliseconds(result["exposed"]) if name != "alone" else "-"])
    return rows


def bucket_table(reports):
    columns = [by_name(report) for report in reports]
    rows = [["bucket"] + [f"{medium(report)}: {what}" for report in reports
                          for what in ("buckets", "step", "exposed")]]
    for name in columns[0]:
        row = [name]
        for column in columns:
            local = name == "no communication"
            row += ["-" if local else column[name]["buckets"], milliseconds(column[name]["step"]),
                    "-" if local else milliseconds(column[name]["exposed"])]
        rows.append(row)
    return rows


def overhead_table(own, torch=None):
    ours = by_name(own)
    sides = {"ddprun": (ours["no communication"], ours["ddprun"]),
             "c10d::Reducer, the same process group": (ours["no communication"],
                                                       ours["c10d::Reducer"])}
    if torch:
        theirs = by_name(torch)
        torch_ddp = next(result for name, result in theirs.items() if name != "no communication")
        sides["PyTorch DDP + Gloo"] = (theirs["no communication"], torch_ddp)
    rows = [["10-10-5 model, 2 ranks", "alone", "together", "overhead", "to ddprun"]]
    base = ours["ddprun"]["exposed"]
    for name, (alone, together) in sides.items():
        rows.append([name, milliseconds(alone["step"]), milliseconds(together["step"]),
                     milliseconds(together["exposed"]),
                     harness.ratio(base, together["exposed"])])
    return rows


def allreduce_plot(report):
    series = {}
    for result in report["results"]:
        series.setdefault(result["algorithm"], []).append((result["bytes"], result["seconds"]))
    return plots.lines(series, "bytes", "time", size_text, milliseconds)


def overlap_plot(report):
    results = by_name(report)
    rows = {}
    for name in MODES:
        parts = [results[name][part] for part in SPLIT]
        rows[name] = [*parts, max(results[name]["step"] - sum(parts), 0)]
    return plots.bars(rows, [*SPLIT, "rest of the step"], "time of a step", milliseconds)


def bucket_plot(reports):
    series = {}
    for report in reports:
        series[medium(report).replace(" (emulated)", "").replace("a link of ", "")] = [
            (result["bucket_mb"] * (1 << 20), result["step"]) for result in report["results"]
            if result["name"] != "no communication"]
    return plots.lines(series, "bucket size", "time of a step", size_text, milliseconds,
                       y_from_zero=True)


def sections(results):
    """{marker: (heading, tables, plots)}"""
    overlap = [(pair[0], pair[1] if len(pair) > 1 else None) for pair in results["overlap"]]
    return {
        "overlap": ("When to all-reduce", [overlap_table(*pair) for pair in overlap],
                    [(f"{own['ranks']} ranks, {medium(own)}", overlap_plot(own))
                     for own, _ in overlap]),
        "buckets": ("How much at a time",
                    [bucket_table(results["buckets"])] if results["buckets"] else [],
                    [("2 ranks", bucket_plot(results["buckets"]))] if results["buckets"] else []),
        "allreduce": ("How", [allreduce_table(report) for report in results["allreduce"]],
                      [(f"{report['ranks']} ranks", allreduce_plot(report))
                       for report in results["allreduce"]]),
        "overhead": ("What it costs a small model",
                     [overhead_table(*pair) for pair in results["overhead"]], []),
    }


def main():
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--links", type=float, nargs="*", default=[10, 2],
                        help="emulated links in Gbit/s; default: 10 and 2")
    published.add_options(parser, "runs/overlap.html")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(options, folder)
    harness.write_json(options, "ddp", results)
    published.publish("All-reduce beside backward and step", sections(results), options)


if __name__ == "__main__":
    main()
