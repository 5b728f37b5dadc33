#!/usr/bin/env python3
"""Makes tests/golden/lr_schedulers.json: the learning rates of torch.optim.lr_scheduler's
ReduceLROnPlateau for many rows of values of a metric, and of its StepLR, MultiStepLR and
OneCycleLR.

Usage: scripts/make_golden_lr_schedulers.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch (scripts/setup.sh). The same version gives the same file.
"""

import json
import pathlib
import random
import sys

import torch
from torch.optim.lr_scheduler import MultiStepLR, OneCycleLR, ReduceLROnPlateau, StepLR


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)


def rate_of(sgd):
    return sgd.param_groups[0]["lr"]


def plateau(values, **options):
    """The learning rate after each evaluation."""
    sgd = optimizer()
    scheduler = ReduceLROnPlateau(sgd, **options)
    rates = []
    for value in values:
        scheduler.step(float(value))
        rates.append(rate_of(sgd))
    return rates


def plateaus(draw):
    cases = []
    for _ in range(200):
        options = {"mode": draw.choice(("min", "max")), "factor": draw.choice((0.1, 0.5)),
                   "patience": draw.randint(0, 3), "threshold": draw.choice((0.0, 1e-4, 0.2)),
                   "cooldown": draw.randint(0, 3), "min_lr": draw.choice((0.0, 0.02))}
        values = [draw.choice(("nan", "inf", "-inf")) if draw.random() < 0.05 else
                  str(round(draw.random() + draw.choice((0, 0.1)) * i, 1)) for i in range(25)]
        cases.append({**options, "values": values, "rates": plateau(values, **options)})
    return cases


def rates_of(make):
    """The learning rates of 40 steps."""
    sgd = optimizer()
    scheduler = make(sgd)
    rates = []
    for _ in range(40):
        rates.append(rate_of(sgd))
        sgd.step()
        scheduler.step()
    return rates


def steps():
    return [{"step_size": size, "gamma": gamma,
             "rates": rates_of(lambda sgd, size=size, gamma=gamma: StepLR(sgd, size, gamma))}
            for size, gamma in ((1, 0.9), (3, 0.5), (7, 0.1), (30, 0.1))]


def multi_steps():
    return [{"milestones": milestones, "gamma": gamma,
             "rates": rates_of(lambda sgd, at=milestones, gamma=gamma: MultiStepLR(sgd, at, gamma))}
            for milestones, gamma in (([1], 0.5), ([20, 30], 0.1), ([30, 10, 10], 0.3),
                                      ([50], 0.1))]


def one_cycles():
    cases = []
    for total, share, first, last in ((40, 0.3, 25, 1e4), (100, 0.25, 10, 100), (60, 0.9, 2, 1)):
        options = {"pct_start": share, "div_factor": first, "final_div_factor": last}
        cases.append({**options, "total_steps": total, "rates": rates_of(
            lambda sgd, total=total, options=options: OneCycleLR(
                sgd, 1.0, total_steps=total, cycle_momentum=False, **options))})
    return cases


def main():
    checkout = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else checkout / "tests/golden").resolve()
    (folder / "lr_schedulers.json").write_text(
        json.dumps({"torch": torch.__version__, "reduce_lr_on_plateau": plateaus(random.Random(1)),
                    "step": steps(), "multi_step": multi_steps(),
                    "one_cycle": one_cycles()}) + "\n")


if __name__ == "__main__":
    main()
