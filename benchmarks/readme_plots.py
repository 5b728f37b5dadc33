#!/usr/bin/env python3
"""The plots of the README from what the benchmarks measured: docs/measured/NAME.json, written by
`benchmarks/NAME.py --json`, becomes docs/plots/NAME.svg.
"""

import json

import harness
import plots
import published

MEASURED = harness.ROOT / "docs/measured"
PLOTS = harness.ROOT / "docs/plots"


def results(name):
    return json.loads((MEASURED / f"{name}.json").read_text())["results"]


def startup():
    rows = {row["side"]: row["wall_seconds"] for row in results("startup")
            if row["ranks"] == 2 and row["side"] != "no launcher"}
    return plots.dots(rows, "start and end of 2 workers that do nothing (logarithmic)",
                      published.milliseconds, "ddprun", logarithmic=True)


def first_step():
    rows = {f"{row['side']}, {row['ranks']} ranks": row["first_step_seconds"]
            for row in results("first_step")}
    return plots.dots(rows, "launch to first training step of a small GPT (logarithmic)",
                      lambda seconds: f"{seconds:.2g} s", "ddprun", logarithmic=True)


def allreduce():
    series = {}
    for row in results("allreduce"):
        if row["ranks"] == 2 and row["side"] != "ddprun staged":
            series.setdefault(row["side"], []).append((row["bytes"], row["seconds"]))
    return plots.lines(series, "bytes, 2 ranks of one host", "time of an all-reduce",
                       published.size_text, published.milliseconds)


def training():
    rows = {row["side"]: row["samples_per_second"] for row in results("training")
            if row["case"] == "bert" and "length_grouped" not in row["side"]}
    return plots.dots(rows, "BERT on two CPU ranks, samples/s", lambda rate: f"{rate:.0f}",
                      "ddprun")


TITLES = {startup: "Start-up of launchers", first_step: "Time to the first training step",
          allreduce: "All-reduce on one host", training: "Training of BERT"}


def main():
    PLOTS.mkdir(parents=True, exist_ok=True)
    for plot, title in TITLES.items():
        path = PLOTS / f"{plot.__name__}.svg"
        path.write_text(plots.standalone(plot(), title))
        print(path.relative_to(harness.ROOT))


if __name__ == "__main__":
    main()
