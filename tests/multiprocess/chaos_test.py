"""Random processes of random jobs are killed, stopped or frozen at random times; whatever is hit,
the job ends as it must and leaves nothing.

    chaos_test.py [--seeds FIRST:END] [--kinds KIND,...]
    chaos_test.py --seed N          one run again, with what it did

Needs DDPRUN_PROGRAM and DDPRUN_FAKE_TEMPLATE; runs of ddp-trainer need DDPRUN_CHAOS_TRAINER.
"""

import argparse
import collections
import sys
import unittest

import chaos_job
import chaos_plan

done = collections.Counter()
durations_s = []


class Chaos(chaos_job.ChaosJob):
    def follow(self, seed, kinds):
        plan = chaos_plan.make_plan(seed, kinds)
        print(plan, flush=True)
        victim, duration_s = self.run_plan(plan)
        self.check(plan, victim)
        done[(plan.victim, plan.action if victim is not None else "had gone already")] += 1
        durations_s.append(duration_s)
        codes = [job.returncode for job in self.nodes]
        print(f"  pid {victim}; exit {codes} {duration_s:.2f} s later", flush=True)


def add_test(seed, kinds):
    setattr(Chaos, f"test_seed_{seed}", lambda self: self.follow(seed, kinds))


def summarize():
    print(f"{len(durations_s)} runs passed")
    for (victim, action), count in sorted(done.items()):
        print(f"  {count:4} x {victim}: {action}")
    if durations_s:
        durations_s.sort()
        middle = durations_s[len(durations_s) // 2]
        print(f"from the hit to the end: median {middle:.2f} s, longest {durations_s[-1]:.2f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="0:15")
    parser.add_argument("--kinds", default="")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    seeds = range(first, end) if options.seed is None else [options.seed]
    kinds = [kind for kind in chaos_plan.KINDS if kind != "trainer" or chaos_job.TRAINER]
    if options.kinds:
        kinds = options.kinds.split(",")
    for seed in seeds:
        add_test(seed, kinds)
    program = unittest.main(argv=[sys.argv[0]], exit=False)
    summarize()
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
