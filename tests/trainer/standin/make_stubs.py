"""Makes the stand-in's libraries: make_stubs.py SITE_PACKAGES FOLDER.

Each has the soname and the symbol versions of the real one. A function that LibTorch needs and that
nobody wrote by hand refuses with its name (CUDA, cuDNN), or succeeds and does nothing (cuBLAS)."""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SITE, OUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
COMPILE = [*(sys.argv[3:] or ["g++"]), "-std=c++20", "-O1", "-fPIC", "-shared",
           f"-I{HERE.parents[2]}",
           f"-I{SITE}/nvidia/cu13/include", f"-I{SITE}/nvidia/nccl/include",
           f"-I{SITE}/torch/include"]
NEEDED = {}  # soname -> functions
for library in [*SITE.glob("torch/lib/*.so"), *SITE.glob("nvidia/*/lib/*.so*")]:
    listed = subprocess.run(["nm", "-D", "--undefined-only", str(library)], capture_output=True,
                            text=True, check=True).stdout
    for name, soname in re.findall(r" U (\w+)@(lib[\w.]+)", listed):
        NEEDED.setdefault(soname, set()).add(name)
    NEEDED.setdefault("libnccl.so.2", set()).update(re.findall(r" U (nccl\w+)\n", listed))
# LibTorch looks NVML's functions up by their names.
NEEDED["libnvidia-ml.so.1"] = {
    name.decode() for name in re.findall(rb"\0(nvml[A-Z]\w+)(?=\0)",
                                         (SITE / "torch/lib/libc10_cuda.so").read_bytes())}

REFUSAL = """#include <cstdio>
#include <string>
static int Refuse(const char* name) {
  std::fprintf(stderr, "stand-in: %s is not supported\\n", name);
  return CODE;
}
namespace standin {
void Log(const std::string& name);
}
extern "C" {
"""


def make(soname, sources, prefixes, refuse, special=None, more=(), quiet=False):
    """refuse: the error number of functions that refuse; None: they succeed."""
    written = set()
    for source in sources:
        code = re.sub("//.*", "", (HERE / source).read_text())
        written |= set(re.findall(r"\b(\w+)\([^;{}]*\) \{", code))
    lines = []
    for name in sorted(NEEDED.get(soname, set()) - written):
        refusal = f"return {refuse or 0};" if quiet or not refuse else f'return Refuse("{name}");'
        body = (special or {}).get(name) or refusal
        arguments = "void** out" if "*out" in body else ""
        if isinstance(body, tuple):
            arguments, body = body
        elif refuse is None and re.search("gemm|Gemm|LtMatmul$", name):
            body = f'standin::Log("{name}"); {body}'  # it launches a kernel
        lines.append(f"int {name}({arguments}) {{ {body} }}")
    rest = OUT / f"{soname}.cc"
    rest.write_text(REFUSAL.replace("CODE", str(refuse or 0)) + "\n".join(lines) + "\n}\n")
    version = OUT / f"{soname}.version"
    # NCCL's symbols have no version.
    name = "" if soname in ("libnccl.so.2", "libcuda.so.1", "libnvidia-ml.so.1") else soname
    version.write_text(f"{name} {{ global: {' '.join(p + '*;' for p in prefixes)} "
                       'extern "C++" { standin::*; }; local: *; };\n')
    subprocess.run([*COMPILE, *(str(HERE / source) for source in sources), str(rest), "-w",
                    f"-Wl,-soname,{soname},--version-script={version}", *more,
                    "-o", str(OUT / soname)], check=True)
    return len(lines)


OUT.mkdir(parents=True, exist_ok=True)
HANDLE = {name: "static char handle; *out = &handle; return 0;"
          for name in ("cublasCreate_v2", "cublasLtCreate", "cudnnCreate")}
# One algorithm for every product.
HEURISTIC = {"cublasLtMatmulAlgoGetHeuristic": (
    "void*, void*, void*, void*, void*, void*, void*, int, void*, int* count",
    "*count = 1; return 0;")}
# A GPU ends a kernel that reads four numbers at an address which is no multiple of their size.
ALIGNED = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
RUNTIME = [str(OUT / "libcudart.so.13")]
made = {
    "libcudart.so.13": make("libcudart.so.13",
                            ["device.cc", "own_kernels.cc", "runtime.cc", "streams.cc"],
                            ["cuda", "__cuda"], 801, more=["-pthread", "-ldl", *ALIGNED]),
    "libcuda.so.1": make("libcuda.so.1", ["driver.cc"], ["cu"], 801),
    "libcublas.so.13": make("libcublas.so.13", ["products.cc"], ["cublas"], None, HANDLE, RUNTIME),
    "libcublasLt.so.13": make("libcublasLt.so.13", ["products.cc"], ["cublas"], None, HEURISTIC,
                              ["-DSTANDIN_LT", *RUNTIME]),
    "libnvidia-ml.so.1": make("libnvidia-ml.so.1", ["../../base/fake_nvml.cc", "nvml.cc"],
                              ["nvml"], 3, quiet=True),
    # Too old for attention, so that LibTorch takes its own kernels.
    "libcudnn.so.9": make("libcudnn.so.9", [], ["cudnn"], 3000,
                          {"cudnnGetVersion": "return 8000;", **HANDLE}),
    "libnccl.so.2": make("libnccl.so.2", ["nccl.cc", "reduce.cc"], ["nccl"], 3,
                         more=[*RUNTIME, "-lrt", "-pthread"]),
}
for soname, refusing in made.items():
    print(soname, refusing, "functions without a meaning")
