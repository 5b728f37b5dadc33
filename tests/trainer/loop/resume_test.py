"""Runs that are killed, restarted, or taken up by hand go on in their folder, step for step."""

import fcntl
import json
import os
import resource
import signal
import unittest
import unittest.mock

import harness
import training


class Resume(training.TrainingTest):
    def toy(self, **sections):
        config = training.toy_config(
            run={"max_steps": 40}, checkpoint={"save_steps": 10}, optimizer={"type": "adamw"}
        )
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        return config

    def weights(self, run):
        with open(self.path(f"runs/{run}/model/model.safetensors"), "rb") as file:
            return file.read()

    def told(self, run):
        """Returns the lines of metrics.jsonl without times."""
        times = ("ts", "run_seconds", "step_seconds", "exposed_comm_seconds", "own_seconds")
        return [
            {key: value for key, value in line.items() if key not in times}
            for line in self.metrics(run)
            if line.get("split") == "train"
        ]

    def saved(self, run):
        """Steps. Not every tenth where steps are faster than the disk."""
        names = os.listdir(self.path(f"runs/{run}/checkpoints"))
        return sorted(int(name[5:]) for name in names if name.startswith("step-"))

    def ranks_of(self, job):
        found = []
        for pid in harness.processes_with(self.mark):
            try:
                with open(f"/proc/{pid}/maps") as file:
                    if pid != job.pid and "ddprun-node-memory" in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def test_of_a_killed_job_goes_on_in_its_folder_by_itself(self):
        config = self.toy(run={"name": "whole", "max_steps": 4000}, report={"logging_steps": 100})
        config["checkpoint"]["save_steps"] = 50
        self.train(config, 2)
        config["run"].update(name="killed", recovery="none")
        job = self.start("--nproc_per_node=2", "--max_restarts=3", self.write_config(config))
        for line in job.stdout:
            if line.startswith("checkpoint of step"):
                break
        os.kill(self.ranks_of(job)[0], signal.SIGKILL)
        rest = job.stdout.read()
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("going on after step ", rest)
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["killed", "whole"])
        self.assertEqual(self.weights("killed"), self.weights("whole"))
        self.assertEqual(self.told("killed"), self.told("whole"))
        starts = [line for line in self.metrics("killed") if line.get("event") == "start"]
        self.assertEqual(len(starts), 2)
        self.assertGreater(starts[1]["resumed_step"], 0)
        self.assert_nothing_left()

    def test_from_a_checkpoint_begins_a_run_of_its_own(self):
        self.train(self.toy(checkpoint={"save_total_limit": 0}), 2)
        before = self.metrics("toy")
        step = self.saved("toy")[0]
        job = self.train(
            self.toy(), 1, "--set", f"run.resume=runs/toy/checkpoints/step-{step}",
            "--set", "training.gradient_accumulation_steps=2",
            "--set", "optimizer.learning_rate=0.03",
        )
        self.assertIn(f"going on after step {step}: ", job.out)
        self.assertEqual(self.metrics("toy"), before)
        self.assertEqual([line["step"] for line in self.told("toy-2")], list(range(1, 41)))
        start = [line for line in self.metrics("toy-2") if line.get("event") == "start"][-1]
        self.assertEqual(start["parent"], self.path(f"runs/toy/checkpoints/step-{step}"))
        self.assertEqual(len(start["changes"]), 1)
        self.assertRegex(start["changes"][0],
                         r"^optimizer.learning_rate was \S+ until here, and is 0.03 from here on.$")
        self.assertEqual(self.told("toy-2")[:step], self.told("toy")[:step])

    def test_by_name_goes_on_where_there_is_something_to_go_on_from(self):
        config = self.toy(run={"resume": "auto", "max_steps": 20})
        self.train(config)
        config["run"]["max_steps"] = 40
        job = self.train(config)
        self.assertIn("warning: run.max_steps was 20 until here, and is 40 from here on.", job.out)
        self.assertIn("going on after step 20: runs/toy/checkpoints/step-20", job.out)
        self.assertEqual([line["step"] for line in self.told("toy")], list(range(1, 41)))
        job = self.train(config)
        self.assertIn("nothing to do: the run has done all of its steps", job.out)
        self.assertEqual(os.listdir(self.path("runs")), ["toy"])
        config["run"]["resume"] = "never"
        self.assertNotIn("going on", self.train(config).out)
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["toy", "toy-2"])

    def test_by_name_goes_on_where_that_name_has_saved_last(self):
        first = self.toy(run={"resume": "auto"}, checkpoint={"save_steps": 0})
        self.train(first)
        self.train({**first, "run": {**first["run"], "name": "toy-2"}})
        config = self.toy(run={"resume": "auto", "max_steps": 20})
        self.train(config)
        self.assertEqual(self.saved("toy-3")[-1], 20)
        config["run"]["max_steps"] = 40
        job = self.train(config)
        self.assertIn("going on after step 20: runs/toy-3/checkpoints/step-20", job.out)
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["toy", "toy-2", "toy-3"])

    def remember_engines(self, **gflops):
        """Writes the speeds that later starts of a run believe to have measured."""
        folder = self.path("cache/ddprun")
        found = [name for name in os.listdir(folder) if name.endswith(".json")]
        self.assertEqual(len(found), 1)
        with open(os.path.join(folder, found[0]), "w") as file:
            json.dump({"engines": [{"name": name, "gflops": number, "error": 1e-7}
                                   for name, number in gflops.items()]}, file)

    def test_keeps_the_matrix_engine(self):
        large = self.toy(
            run={"name": "large"}, model={"layer_sizes": [10, 4096, 64, 5]},
            training={"matmul_engine": "auto"}, checkpoint={"save_total_limit": 0},
        )
        with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=self.path("cache")):
            self.train(large)
            if not training.has_onednn():
                self.remember_engines(onednn=100, default=1)
                self.assertIn("matrix products: default", self.train(large).out)
                return
            for before, after in (("onednn", "default"), ("default", "onednn")):
                with self.subTest(before):
                    name = "by-" + before
                    large["run"]["name"] = name
                    self.remember_engines(**{before: 100, after: 1})
                    self.assertIn(f"matrix products: {before}", self.train(large).out)
                    self.remember_engines(**{before: 1, after: 100})
                    step = self.saved(name)[0]
                    job = self.train(
                        large, 1, "--set", f"run.resume=runs/{name}/checkpoints/step-{step}"
                    )
                    self.assertIn(
                        f'Matrix products were done by "{before}" until here, and are from here on',
                        job.out,
                    )
                    self.assertEqual(self.weights(name + "-2"), self.weights(name))

    def test_passes_over_what_is_broken_and_says_so(self):
        self.train(self.toy(), 2)
        before, newest = self.saved("toy")
        folder = self.path(f"runs/toy/checkpoints/step-{newest}")
        # Damages the shard that rank 1 checks.
        with open(os.path.join(folder, "shard-00001-of-00002.safetensors"), "r+b") as shard:
            shard.seek(-1, os.SEEK_END)
            last = shard.read(1)[0]
            shard.seek(-1, os.SEEK_END)
            shard.write(bytes([last ^ 1]))
        job = self.train(self.toy(), 2, "--set", "run.resume=runs/toy")
        self.assertIn("passing over", job.out)
        self.assertIn(f"going on after step {before}: ", job.out)
        self.assertEqual(self.metrics("toy")[-1]["step"], 40)
        self.assertTrue(os.path.exists(folder + ".aside-1"))

    def files(self, folder):
        """All below it, with what is in them."""
        found = {}
        for parent, folders, names in os.walk(self.path(folder)):
            found.update({os.path.join(parent, name): None for name in folders})
            for name in names:
                with open(os.path.join(parent, name), "rb") as file:
                    found[os.path.join(parent, name)] = file.read()
        return found

    def assert_refused(self, text, *flags, **options):
        before = self.files("runs")
        job = self.run_ddprun(*flags, **options)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("-- " + text, job.err)
        self.assertEqual(self.files("runs"), before)
        return job.err

    def table(self, kinds="no yes", columns="x y"):
        """Writes rows.csv, whose classes and columns have these names."""
        names, (first, second) = kinds.split(), columns.split()
        rows = [{"x": i, "y": -i, "kind": names[i % 2]} for i in range(20)]
        self.script("rows.csv", f"{first},{second},kind\n" + "".join(
            f"{row[first]},{row[second]},{row['kind']}\n" for row in rows))
        return {"run": {"name": "table", "output_dir": "runs/{name}", "max_steps": 4},
                "model": {"type": "mlp", "layer_sizes": [2, 4, 2]},
                "data": {"format": "csv", "train_files": "rows.csv", "label_column": "kind",
                         "validation_files": "rows.csv", "standardize": True},
                "checkpoint": {"save_steps": 2, "save_best": "loss"},
                "evaluation": {"eval_steps": 1, "metrics": ["accuracy"]}}

    def test_with_data_of_another_meaning_is_refused(self):
        config = self.table()
        self.train(config, 1)
        for change in ({"kinds": "yes zero"}, {"columns": "y x"}):
            self.table(**change)
            said = self.assert_refused("CANNOT GO ON", "--resume=runs/table", "--set",
                                       "run.max_steps=6")
            self.assertIn(f"The {'labels' if 'kinds' in change else 'columns'} of the training "
                          "data were", said)
        self.table()
        said = self.assert_refused("CANNOT GO ON", "--resume=runs/table", "--set",
                                   "run.max_steps=6", "--set", "checkpoint.save_best=accuracy")
        self.assertIn('compared evaluations by "loss"', said)
        job = self.run_ddprun("--resume=runs/table", "--set", "run.max_steps=6")
        self.assertEqual(job.returncode, 0, job.err)

    def test_in_a_run_of_its_own_has_a_best_of_its_own(self):
        self.train(self.table(), 1)
        step = max(self.saved("table"))
        # A rate at which nothing becomes better.
        job = self.run_ddprun(f"--resume=runs/table/checkpoints/step-{step}", "--set",
                              "run.name=branch", "--set", "run.max_steps=8", "--set",
                              "optimizer.learning_rate=50", "--set",
                              "checkpoint.load_best_model_at_end=true")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertRegex(job.out, "the best loss, .*, was that of step [5-8]")

    def test_that_is_refused_changes_nothing(self):
        self.train(self.toy())
        newest = self.saved("toy")[-1]
        for how, title in (
            ("data.data_seed=7", "SAVED POSITION"),
            ("training.per_device_train_batch_size=3", "CANNOT GO ON"),
            ("model.layer_sizes=[10, 7, 5]", "STATE DOES NOT FIT"),
            ("checkpoint.dir=elsewhere", "NO CHECKPOINT"),
        ):
            more = ["--set", how, "--set", "run.max_steps=-1"]
            self.assert_refused(title, "--resume", "runs/toy", *more)
            if title != "NO CHECKPOINT":
                checkpoint = f"runs/toy/checkpoints/step-{newest}"
                self.assert_refused(title, "--resume", checkpoint, *more)
        # A checkpoint that cannot be read may be complete.
        commit = self.path(f"runs/toy/checkpoints/step-{newest}/COMMIT")
        os.rename(commit, commit + ".away")
        os.symlink("COMMIT", commit)
        job = self.run_ddprun("--resume", "runs/toy")
        self.assertIn("-- CHECKPOINT CANNOT BE READ", job.err)
        os.rename(commit + ".away", commit)
        self.assertEqual(len(self.told("toy")), 40)
        job = self.run_ddprun("--resume", "runs/toy")
        self.assertIn("nothing to do", job.out)

    def test_of_a_run_that_saved_nothing_changes_nothing(self):
        self.train(self.toy(checkpoint={"save_steps": 0}))
        self.assert_refused("NO CHECKPOINT", "--resume", "runs/toy")

    def test_finds_its_checkpoints_from_another_folder(self):
        os.mkdir(self.path("other"))
        config = self.toy(checkpoint={"dir": "saved"}, run={"max_steps": 20})
        self.train(config)
        options = {"cwd": self.path("other")}
        more = ["--set", "run.max_steps=40"]
        job = self.run_ddprun("--resume", "../runs/toy", *more, **options)
        self.assertIn("going on after step 20: " + self.path("saved/toy/step-20"), job.out)
        self.assertEqual(os.listdir(self.path("other")), [])
        # Another project, with a run of the same name.
        job = self.train(self.toy(checkpoint={"dir": "saved"}, run={"output_dir": "other/{name}"}))
        self.assertEqual(os.listdir(self.path("other")), ["toy-2"])
        self.assertEqual(sorted(os.listdir(self.path("saved"))), ["toy", "toy-2"])
        # It knows whose metrics to copy.
        self.train(self.toy(run={"name": "new"}), 1, "--set", "run.resume=saved/toy/step-40")
        self.assertEqual(self.told("new"), self.told("toy"))

    def test_of_a_run_that_began_from_a_checkpoint_begins_from_it_again(self):
        config = self.toy(run={"max_steps": 20})
        self.train(config, 2)
        config["run"].update(name="killed", recovery="none", max_steps=4000)
        config["checkpoint"]["save_steps"] = "1000 h"
        config["report"]["logging_steps"] = 100
        job = self.start("--nproc_per_node=2", "--max_restarts=1", self.write_config(config),
                         "--set", "run.resume=runs/toy/checkpoints/step-20")
        for line in job.stdout:
            if line.startswith("step "):
                break
        os.kill(self.ranks_of(job)[0], signal.SIGKILL)
        rest = job.stdout.read()
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)
        step = self.path("runs/toy/checkpoints/step-20")
        self.assertIn("going on after step 20: " + step, rest)
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["killed", "toy"])
        self.assertEqual([line.get("resumed_step", 0) for line in self.metrics("killed")
                          if line.get("event") == "start"], [0, 20, 20])

    def test_of_a_requeued_run_begins_from_its_checkpoint_until_it_has_saved(self):
        config = self.toy(run={"max_steps": 20})
        self.train(config, 2)
        config["run"].update(name="requeued", max_steps=10**9)
        config["checkpoint"]["save_steps"] = "1000 h"
        path = self.write_config(config)
        origin = self.path("runs/toy/checkpoints/step-20")

        def start(requeues):
            job = self.start("--nproc_per_node=2", path, "--set", f"run.resume={origin}",
                             env={"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(requeues)})
            lines = []
            for line in job.stdout:
                lines.append(line)
                if line.startswith("step "):
                    break
            return job, "".join(lines)

        for requeues in range(3):
            job, lines = start(requeues)
            self.assertIn("going on after step 20: " + origin, lines)
            # The last one saves.
            job.send_signal(signal.SIGTERM if requeues == 2 else signal.SIGKILL)
            self.finish(job)
            self.assert_nothing_left()
        self.assertEqual(job.returncode, 75, job.err)
        [step] = self.saved("requeued")
        job, lines = start(3)
        self.assertIn(f"going on after step {step}:", lines)
        job.kill()
        self.finish(job)
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["requeued", "toy"])

    @unittest.skipUnless("DDPRUN_JUMPING_CLOCK" in os.environ, "no library to preload")
    def test_does_not_depend_on_the_clock_of_the_day(self):
        """It jumps by years, to and fro. What is due after so many minutes, is limited in time, is
        kept and is gone on from is so by other clocks and by steps."""
        env = {"LD_PRELOAD": os.environ["DDPRUN_JUMPING_CLOCK"]}
        config = self.toy(run={"name": "whole", "max_steps": 4000}, report={"logging_steps": 100})
        self.train(config, 2)
        config["run"]["name"] = "jumps"
        config["checkpoint"]["save_steps"] = "1000 h"
        flags = ["--nproc_per_node=2", self.write_config(config)]
        job = self.run_ddprun(*flags, "--set", "run.max_time=1000 h", "--set", "run.max_steps=40",
                              env=env)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(self.saved("jumps"), [40])
        times = [line["ts"] for line in self.metrics("jumps")]
        self.assertGreater(max(times) - min(times), 31_536_000, "the clock has not jumped")
        for more in (["--set", "checkpoint.save_steps=0.02 s", "--set", "run.max_time=1 s"], []):
            job = self.run_ddprun(*flags, "--set", "run.resume=auto", *more, env=env)
            self.assertIn(job.returncode, (75, 0), job.err)
            self.assertIn(f"going on after step {newest}: " if more == [] else "after step 40: ",
                          job.out)
            newest = self.saved("jumps")[-1]
        self.assertEqual(newest, 4000)
        self.assertEqual(self.weights("jumps"), self.weights("whole"))

    def test_of_a_folder_in_use_is_refused(self):
        self.train(self.toy())
        lock = self.path("runs/toy/run.lock")
        with open(lock, "a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            job = self.run_ddprun(self.write_config(self.toy()), "--set", "run.resume=runs/toy")
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("-- RUN IN USE", job.err)

    def test_of_a_folder_without_checkpoints_is_refused(self):
        for path in ("runs/none", "."):
            job = self.run_ddprun(self.write_config(self.toy()), "--set", f"run.resume={path}")
            self.assertNotEqual(job.returncode, 0)
            self.assertRegex(job.err, "-- (NO CHECKPOINT|NOT A CHECKPOINT)")

    def test_of_a_full_disk_trains_on_and_counts(self):
        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        config = self.toy(model={"layer_sizes": [10, 3000, 5]}, checkpoint={"save_at_end": False})
        config["run"]["max_steps"] = 3
        config["checkpoint"]["save_steps"] = 1
        job = self.run_ddprun(
            self.write_config(config), preexec_fn=limit_files, restore_signals=False
        )
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("warning: no checkpoint of step 1: ", job.out)
        self.assertRegex(job.out, r"warning: (\d) of \1 checkpoints could not be saved")
        self.assertEqual([line["step"] for line in self.told("toy")], [1, 2, 3])


if __name__ == "__main__":
    harness.main()
