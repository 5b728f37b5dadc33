#!/usr/bin/env python3
"""What a save costs the training beside it, against torch.save and torch.distributed.checkpoint.

One rank. Each step multiplies with a third of the state, which stays as it is, and then changes all
of it, as an optimizer does. A save is begun between two steps; steps go on until it is committed.
"stall" is what the calls of saving blocked, "longest step" how much longer the slowest step was
than the median without saving, "added" the time that all steps until the commit took more, of what
they take without; CPU time and the memory are those beyond the steps' own. Ours syncs all files,
torch.save does not. With 2 threads both of two cores are taken by the steps.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness

PEERS = ["torch.save", "dcp.save", "dcp.async_save"]


def measure(command, folder):
    folder.mkdir()
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=harness.environment())
    shutil.rmtree(folder)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=3)
    parser.add_argument("--bytes", type=int, default=10**9, help="of state; default: 1 GB")
    parser.add_argument("--saves", type=int, default=4, help="in a round; default: %(default)s")
    parser.add_argument("--step", type=float, default=0.4, help="seconds; default: %(default)s")
    parser.add_argument("--folder", default=None, help="of the disk to save to; default: $TMPDIR")
    options = parser.parse_args()
    peer = harness.ROOT / "benchmarks/peers/checkpoint.py"
    commands = {"ddprun": [options.bin / "ddp-checkpoint-speed"],
                **{name: [harness.VENV / "python", peer, name] for name in PEERS}}
    commands = harness.sides(options, commands)
    results = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = pathlib.Path(scratch) / "saves"
        for _ in range(options.rounds):
            for threads in (1, 2):
                for name, command in commands.items():
                    rest = [folder, options.bytes, threads, options.saves, options.step]
                    saves = measure([*command, *map(str, rest)], folder)
                    results.setdefault(f"{threads}", {}).setdefault(name, []).extend(saves)
    for threads, by_name in results.items():
        print(f"\nSteps with {threads} thread{'s' if threads != '1' else ''}:\n")
        harness.table(["", "step (ms)", "longest stall (ms)", "longest step (ms more)",
                       "added (% until the commit)", "commit (s)", "CPU (s)", "memory (MiB)"],
                      [row(name, saves) for name, saves in by_name.items()])
    harness.write_json(options, "checkpoint", results)


def row(name, saves):
    def of(key):
        return [save[key] for save in saves]

    return [name, f"{1000 * harness.median(of('step')):.0f}", f"{1000 * max(of('stall')):.1f}",
            f"{1000 * max(of('longest')):.0f}", f"{harness.median(of('added')):.1f}",
            f"{harness.median(of('commit')):.2f}", f"{harness.median(of('cpu')):.2f}",
            f"{max(of('memory')):.0f}"]


if __name__ == "__main__":
    main()
