#!/usr/bin/env python3
"""Makes tests/golden/loss_scale.json: the scales of torch.amp.GradScaler over a row of steps whose
gradients are finite or not.

Usage: scripts/make_golden_loss_scale.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch (scripts/setup.sh --peers). The same version gives the same file.
"""

import json
import pathlib
import random
import sys

import torch


def scales(init_scale, growth_interval, overflows):
    """The scale after each step, and the steps that changed the parameter."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=growth_interval)
    found = []
    for overflow in overflows:
        optimizer.zero_grad()
        scaler.scale((parameter * (float("inf") if overflow else 1.0)).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    return found, round(-parameter.item())


def main():
    checkout = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else checkout / "tests/golden").resolve()
    rows = random.Random(1)
    cases = []
    for init_scale, growth_interval, share, steps in (
            (65536.0, 3, 0.2, 60), (1000.1, 2, 0.5, 60), (2.0**126, 1, 0.1, 20),
            (2.0**-90, 4, 0.7, 40)):
        overflows = [rows.random() < share for _ in range(steps)]
        found, done = scales(init_scale, growth_interval, overflows)
        cases.append({"init_scale": init_scale, "growth_interval": growth_interval,
                      "overflows": overflows, "scales": found, "steps_done": done})
    (folder / "loss_scale.json").write_text(
        json.dumps({"torch": torch.__version__.split("+")[0], "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
