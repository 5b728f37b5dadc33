#!/usr/bin/env python3
"""Host all-reduce of fp32: HostProcessGroup against OpenMPI, MPICH and Gloo, on one machine.

Every side times rounds of about half a second per size on rank 0 and reports their median; the
sides take turns. "ddprun staged" reduces ordinary tensors instead of those that the group
allocates in shared memory, as DDP's buckets are.
"""

import json
import pathlib
import subprocess
import tempfile

import harness

SIZES = {"4 KB": 4 << 10, "1 MB": 1 << 20, "25 MB": 25 << 20, "100 MB": 100 << 20}


def compile_mpi_side(compiler, folder):
    program = pathlib.Path(folder) / f"{compiler}.allreduce"
    source = harness.ROOT / "benchmarks/peers/mpi_allreduce.cc"
    subprocess.run([compiler, "-std=c++20", "-O2", source, "-o", program], check=True)
    return program


def commands(options, ranks, folder):
    sizes = [str(size) for size in SIZES.values()]
    own = [*harness.ddprun(options, ranks), "--no_python", options.bin / "ddp-allreduce"]
    gloo = harness.ROOT / "benchmarks/peers/gloo_allreduce.py"
    result = {
        "ddprun": [*own, *sizes],
        "ddprun staged": [*own, "--staged", *sizes],
        "Gloo": [*harness.torchrun(ranks), gloo, *sizes],
    }
    for name, launch, compiler in (("OpenMPI", harness.mpirun, "mpicxx.openmpi"),
                                   ("MPICH", harness.mpich, "mpicxx.mpich")):
        if not options.only or name in options.only:
            result[name] = [*launch(ranks), compile_mpi_side(compiler, folder), *sizes]
    return harness.sides(options, result)


def measure(options, ranks):
    with tempfile.TemporaryDirectory() as folder:
        argvs = commands(options, ranks, folder)
        seconds = {(name, size): [] for name in argvs for size in SIZES.values()}
        for _ in range(options.rounds):
            for name, argv in argvs.items():
                for line in harness.output(argv).splitlines():
                    if line.startswith("{"):
                        result = json.loads(line)
                        seconds[name, result["bytes"]].append(result["seconds_median"])
    return [{"ranks": ranks, "side": name, "bytes": size, "seconds": harness.median(values),
             "seconds_all": values} for (name, size), values in seconds.items()]


def cell(seconds):
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main():
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    options = parser.parse_args()
    results = [row for ranks in options.ranks for row in measure(options, ranks)]
    times = {(row["side"], row["ranks"], row["bytes"]): row["seconds"] for row in results}
    sides = list(dict.fromkeys(row["side"] for row in results))
    header = ["all-reduce", *sides, *(f"{side} / ddprun" for side in sides if side != "ddprun")]
    rows = []
    for ranks in options.ranks:
        for label, size in SIZES.items():
            line = [times[side, ranks, size] for side in sides]
            own = times.get(("ddprun", ranks, size))
            rows.append([f"{label}, {ranks} ranks", *map(cell, line),
                         *(harness.ratio(own, seconds) for side, seconds in zip(sides, line)
                           if side != "ddprun")])
    harness.table(header, rows)
    harness.write_json(options, "allreduce", results)


if __name__ == "__main__":
    main()
