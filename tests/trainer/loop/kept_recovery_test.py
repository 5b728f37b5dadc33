"""Workers of zero1, zero2 and zero3 that are killed are replaced, with the part of the state that
only they had: the same weights and metrics as of an undisturbed run that keeps nothing.

    kept_recovery_test.py [--kills N] [--seed N]

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR.
"""

import far_recovery_test
import recovery_runs


class Kept:
    """Mixed into a class of runs."""
    strategy = "zero1"
    mappings = 3  # two slots, and a page for both

    def begin(self, config, *rest):
        config["strategy"] = {"type": self.strategy, **config.get("strategy", {})}
        config["run"]["recovery"] = "none" if config["run"]["name"] == "whole" else "memory"
        return super().begin(config, *rest)


class KeptRecovery(Kept, recovery_runs.Runs):
    def test_of_zero1(self):
        self.disturb(2)

    def test_of_zero3_leaves_nothing(self):
        self.strategy = "zero3"
        self.mappings += 2 * 3  # two units of parameters, of which each rank has a part
        self.disturb(3, spared=1)

    def test_of_zero2_leaves_nothing(self):
        self.strategy = "zero2"
        self.disturb(3, spared=1)

    def test_of_zero1_with_checkpoints_and_averages(self):
        self.disturb_with_checkpoints()

    def test_of_zero3_with_checkpoints_and_averages(self):
        self.strategy = "zero3"
        self.disturb_with_checkpoints()

    def disturb_with_checkpoints(self):
        self.disturb(4, checkpoint={"save_steps": 1}, data={"validation_fraction": 0.2},
                     evaluation={"eval_steps": 10}, optimizer={"ema_decay": 0.9})

    def test_of_zero1_in_an_evaluation_with_averages(self):
        self.disturb_evaluations()

    def test_of_zero3_in_an_evaluation_with_averages(self):
        self.strategy = "zero3"
        self.disturb_evaluations()

    # Large layers and one sample for each rank, so that the update takes much of the time. It also
    # changes numbers: fp16's loss scale, and whether there is momentum.
    def test_of_zero1_in_fp16_in_long_updates(self):
        self.disturb_large({"type": "adamw"}, "fp16")

    def test_of_zero2_with_momentum_in_long_updates(self):
        self.strategy = "zero2"
        self.disturb_large({"type": "sgd", "momentum": 0.9, "learning_rate": 0.01}, "fp32")

    def test_of_zero3_in_long_updates(self):
        self.strategy = "zero3"
        self.disturb_large({"type": "adamw"}, "fp32")

    def disturb_large(self, optimizer, precision):
        self.disturb(2, optimizer=optimizer,
                     model={"name_or_path": "", "dropout": 0.1, "hidden_size": 256,
                            "num_hidden_layers": 2},
                     training={"per_device_train_batch_size": 1, "precision": precision})

    def test_of_several_at_once(self):
        self.strategy = "zero3"
        self.disturb_several_at_once()

    def test_while_another_is_being_replaced(self):
        self.strategy = "zero2"
        self.disturb_while_replacing()


class KeptFarRecovery(Kept, far_recovery_test.FarRuns):
    def test_of_zero1_on_two_nodes_with_checkpoints(self):
        self.disturb(2, checkpoint={"save_steps": 1}, data={"validation_fraction": 0.2},
                     evaluation={"eval_steps": 10})

    def test_of_zero2_on_two_nodes_of_two_ranks(self):
        self.strategy = "zero2"
        self.disturb(4)

    def test_of_zero3_on_two_nodes_of_two_ranks(self):
        self.strategy = "zero3"
        self.disturb(4)


if __name__ == "__main__":
    recovery_runs.main()
