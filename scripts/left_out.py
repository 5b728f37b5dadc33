#!/usr/bin/env python3
"""Names the tests that a ctest run left out, each with its reason.

    left_out.py JUNIT_FILE TESTS_FILE [--strict]

JUNIT_FILE is what ctest --output-junit wrote, TESTS_FILE what ctest --show-only=json-v1 printed.
With --strict, the exit code is 1 if any was left out, except tests of a device that the machine
does not have (label gpu).
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree

DEVICE_LABELS = {"gpu"}


def labels_by_test(tests_file):
    with open(tests_file, encoding="utf-8") as file:
        tests = json.load(file)["tests"]
    labels = {}
    for test in tests:
        for entry in test.get("properties", []):
            if entry["name"] == "LABELS":
                labels[test["name"]] = set(entry["value"])
    return labels


def skipped_tests(case):
    """[(name, reason)] of the tests in a suite that ran, which GTEST_SKIP() has left out."""
    program = case.get("name").split(".")[0]
    output = case.findtext("system-out", "")
    skipped = re.findall(r": Skipped\n(.*)\n+\[  SKIPPED \] (\S+) \(", output)
    return [(f"{program}.{name}", why) for why, name in skipped]


def reason(case):
    """The text given to GTEST_SKIP() or printed by a skipped script; else what ctest says."""
    output = case.findtext("system-out", "")
    match = re.search(r": Skipped\n(.+)", output) or re.search(r"SKIPPED?: (.+)", output)
    if match:
        return match.group(1).strip()
    skipped = case.find("skipped")
    return skipped.get("message", "") if skipped is not None else case.get("status", "")


def left_out(junit_file, tests_file):
    """[(name, reason, whether a device is missing)] of the tests that did not run."""
    labels = labels_by_test(tests_file)
    result = []
    for case in ElementTree.parse(junit_file).getroot().iter("testcase"):
        if case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None:
            tests = [(case.get("name"), reason(case))]
        else:
            tests = skipped_tests(case)
        device = bool(DEVICE_LABELS & labels.get(case.get("name"), set()))
        result += [(name, why, device) for name, why in tests]
    return result


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--strict"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    tests = left_out(*arguments)
    for name, why, _ in tests:
        print(f"  left out: {name}: {why}")
    if "--strict" in sys.argv and any(not device for _, _, device in tests):
        sys.exit("left_out.py: here every test must run (CI=true)")


if __name__ == "__main__":
    main()
