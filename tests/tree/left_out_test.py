"""scripts/left_out.py, on what ctest 3.25 writes."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import left_out  # noqa: E402

JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="4" failures="0" disabled="0" skipped="2">
  <testcase name="a.Runs" status="run"><system-out>fine</system-out></testcase>
  <testcase name="b.NeedsGpu" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] b.NeedsGpu
b.cc:2: Skipped
no GPU here

[  SKIPPED ] b.NeedsGpu (0 ms)</system-out>
  </testcase>
  <testcase name="d.Suite" status="run"><system-out>[ RUN      ] Suite.One
[       OK ] Suite.One (0 ms)
[ RUN      ] Suite.Two
d.cc:3: Skipped
no network here

[  SKIPPED ] Suite.Two (0 ms)
[ RUN      ] Suite.Three/0
d.cc:4: Skipped
nor there
[  SKIPPED ] Suite.Three/0 (1 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Suite.Two
[  SKIPPED ] Suite.Three/0</system-out></testcase>
  <testcase name="c_NOT_BUILT" status="notrun"><skipped message="Unable to find executable"/>
  </testcase>
</testsuite>
"""
TESTS = {
    "tests": [
        {"name": "a.Runs"},
        {"name": "b.NeedsGpu", "properties": [{"name": "LABELS", "value": ["gpu"]}]},
        {"name": "c_NOT_BUILT", "properties": []},
    ]
}


class LeftOut(unittest.TestCase):

    def test_names_each_test_with_its_reason_and_knows_missing_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            junit, tests = pathlib.Path(folder) / "tests.xml", pathlib.Path(folder) / "tests.json"
            junit.write_text(JUNIT)
            tests.write_text(json.dumps(TESTS))
            self.assertEqual([("b.NeedsGpu", "no GPU here", True),
                              ("d.Suite.Two", "no network here", False),
                              ("d.Suite.Three/0", "nor there", False),
                              ("c_NOT_BUILT", "Unable to find executable", False)],
                             left_out.left_out(junit, tests))


if __name__ == "__main__":
    unittest.main()
