"""The tests of torch.distributed that come with torch, on the backend "ddprun".

Usage: torch_suite_test.py FOLDER; the folder holds the package ddprun.torch

The tests that PyTorch runs with Gloo on the CPU run here: in their text, Gloo's name is replaced.
Each test has four processes, forked from this one, which has imported torch.
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

WORKING = tempfile.TemporaryDirectory()
os.environ.update(BACKEND="ddprun", WORLD_SIZE="4", TEMP_DIR=WORKING.name, OMP_NUM_THREADS="1",
                  DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="120")
sys.path.insert(0, sys.argv.pop(1))

import ddprun.torch  # noqa: E402, F401: registers the backend
import torch.multiprocessing  # noqa: E402
import torch.testing._internal.distributed as torch_tests  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

# Tests that pass on Gloo and not here, with the reason.
LEFT_OUT = {
    "test_monitored_barrier_gloo": "torch allows monitored_barrier for Gloo alone",
    "test_monitored_barrier_gloo_rank_0_timeout": "torch allows monitored_barrier for Gloo alone",
    "test_monitored_barrier_gloo_subgroup": "torch allows monitored_barrier for Gloo alone",
    "test_ddp_logging_data_cpu": "torch logs each backend of others as 'custom'",
    "test_sparse_all_reduce_sum": "ddprun reduces dense tensors",
}
# Fewer than this would say that the tests skip themselves.
PASS_ON_GLOO = 94


def load_tests_of_torch():
    """The module of PyTorch's tests, as if ddprun were called Gloo."""
    for backends in common_distributed.DistTestCases.backend_feature.values():
        backends.add("ddprun")
    name = "torch.testing._internal.distributed.distributed_test"
    path = pathlib.Path(torch_tests.__path__[0], "distributed_test.py")
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    text = path.read_text()
    for gloo, ddprun in (('"gloo"', '"ddprun"'), ("dist.Backend.GLOO", '"ddprun"'),
                         ("dist.is_gloo_available()", "True")):
        assert gloo in text, gloo
        text = text.replace(gloo, ddprun)
    sys.modules[name] = module
    exec(compile(text, path, "exec"), module.__dict__)
    return module


distributed_test = load_tests_of_torch()


class TorchSuite(distributed_test.TestDistBackend,
                 distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # Not spawned, because the import of torch by four processes takes longer than most tests.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def main():
    suite = unittest.TestSuite(
        test for test in unittest.defaultTestLoader.loadTestsFromTestCase(TorchSuite)
        if test._testMethodName not in LEFT_OUT)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    passed = result.testsRun - sum(map(len, (result.failures, result.errors, result.skipped)))
    print(f"{passed} passed; PyTorch skipped {len(result.skipped)}, most of which need CUDA")
    for name, reason in LEFT_OUT.items():
        print(f"left out: {name}: {reason}")
    return not result.wasSuccessful() or passed + len(LEFT_OUT) != PASS_ON_GLOO


if __name__ == "__main__":
    sys.exit(main())
