"""What pyproject.toml cannot say by itself: the wheel is for one minor version of torch."""

import importlib.util
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]


def torch_folder():
    """Returns the folder of the torch that cmake/FindLibTorch.cmake takes."""
    if os.environ.get("DDPRUN_TORCH"):
        return pathlib.Path(os.environ["DDPRUN_TORCH"])
    found = importlib.util.find_spec("torch")
    if found is not None:
        return pathlib.Path(found.submodule_search_locations[0])
    return next(ROOT.glob(".deps/venv/lib/python3*/site-packages/torch"), None)


def dynamic_metadata(_settings, _project):
    torch = torch_folder()
    if torch is None:
        raise RuntimeError("there is no torch to build for: run scripts/setup.sh, install torch in "
                           "this Python environment, or name its folder with DDPRUN_TORCH")
    numbers = re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR) (\d+)",
                         (torch / "include/torch/headeronly/version.h").read_text())
    minor = ".".join(numbers[:2])
    version = re.search(r"project\(ddprun VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    return {"version": f"{version[1]}+torch{minor}", "dependencies": [f"torch=={minor}.*"]}
