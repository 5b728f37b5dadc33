"""LibTorch's and NCCL's libraries have what ddprun relies on without a GPU to try it on: names
of variables, functions with exactly these arguments, refusals. If one is missing after an upgrade,
read the code again that relies on it."""

import glob
import mmap
import os
import subprocess
import sys
import unittest

TORCH = os.environ["LIBTORCH_FOLDER"]
NCCL = "c10d::ProcessGroupNCCL::"
GRAPH = "at::cuda::CUDAGraph::"

# By library, a text in it and the code that relies on it.
TEXTS = {
    "libtorch_cuda.so": {
        # trainer/worker/device_mesh.cc sets the variables and connects groups when they are made.
        "TORCH_NCCL_RETHROW_CUDA_ERRORS": "a device's error is reported by the trainer",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "no rank waits for a trace",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "no rank waits for a trace",
        "NCCL communicator has not been initialized before mem pool creation":
            "groups are connected before they give memory to buckets",
        "destroy_process_group() was not called": "Mesh::ShutDown() ends each group",
        # trainer/strategies/device_messages.cc
        "In lazy initialization mode, this will result in a new 2-rank":
            "messages of each two ranks have a communicator of their own",
        # tests/trainer/device/process_group.cc refuses the same.
        "Tensors must be contiguous": "collectives have tensors without gaps",
    },
    "libnccl.so.2": {
        "NCCL_SOCKET_IFNAME": "NCCL takes the interface of DDPRUN_NET_INTERFACE",
        "NCCL_IB_HCA": "NCCL takes the adapter of DDPRUN_NET_INTERFACE",
        "NCCL_HOSTID": "shared_gpu_test.py gives one GPU to two ranks",
    },
}
# By library, the beginning of a function that it must define and the code that relies on it.
FUNCTIONS = {
    "libtorch_cuda.so": {
        NCCL + "eagerConnectSingleDevice(c10::Device)": "groups are connected when they are made",
        NCCL + "shutdown()": "Mesh::ShutDown()",
        NCCL + "getError()": "CheckCollectives() asks for it before a step is reported",
        NCCL + "supportsTensorAlloc(signed char)": "MakeFlat() asks for it",
        NCCL + "allocateTensor(long, c10::TensorOptions)": "buckets are in NCCL's memory",
        NCCL + "send(std::vector<at::Tensor, std::allocator<at::Tensor> >&, int, int)":
            "messages of pipelines",
        NCCL + "recv(std::vector<at::Tensor, std::allocator<at::Tensor> >&, int, int)":
            "messages of pipelines",
        NCCL + "_allgather_base(at::Tensor&, at::Tensor&,": "zero3 gathers parameters",
        NCCL + "_reduce_scatter_base(at::Tensor&, at::Tensor&,": "zero2 divides gradients",
        GRAPH + "capture_begin(std::pair<unsigned long long, unsigned long long>, "
                "cudaStreamCaptureMode)": "CudaGraph::Begin()",
        GRAPH + "capture_end()": "CudaGraph::End()",
        GRAPH + "pool()": "CudaGraph's destructor asks whether a capture has ended",
        GRAPH + "replay()": "CudaGraph::Replay()",
        "at::cuda::_fused_adamw_(" + "c10::ArrayRef<at::Tensor>, " * 6 + "at::Tensor const&,":
            "recorded steps read the learning rate from memory",
        "at::cuda::_fused_sgd_(" + "c10::ArrayRef<at::Tensor>, " * 3 + "double, double, "
        "at::Tensor const&,": "recorded steps read the learning rate from memory",
    },
    "libtorch_cpu.so": {
        "at::native::mkldnn_matmul(at::Tensor const&, at::Tensor const&, at::Tensor const&, "
        "float, float)": "trainer/compute/matmul.cc, which has no header for it",
        "at::Context::setSDPUseCuDNN(bool)": "SetUpDevices()",
    },
}


def library(name):
    folders = (os.path.join(TORCH, "lib"), os.path.join(TORCH, "..", "nvidia", "nccl", "lib"))
    found = [path for folder in folders for path in glob.glob(os.path.join(folder, name))]
    if not found:
        raise AssertionError(f"{name} is in none of {folders}")
    return found[0]


def functions_of(name):
    names = subprocess.run(["nm", "-D", "--defined-only", library(name)], check=True,
                           stdout=subprocess.PIPE).stdout
    plain = subprocess.run(["c++filt"], check=True, input=names, stdout=subprocess.PIPE).stdout
    return {line.split(" ", 2)[2] for line in plain.decode().splitlines() if line.count(" ") > 1}


class PinnedFacts(unittest.TestCase):
    def test_libraries_have_the_texts(self):
        for name, texts in TEXTS.items():
            with open(library(name), "rb") as file:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    for text, reason in texts.items():
                        with self.subTest(library=name, text=text, needed_because=reason):
                            self.assertGreaterEqual(content.find(text.encode()), 0)

    def test_libraries_define_the_functions(self):
        for name, functions in FUNCTIONS.items():
            defined = functions_of(name)
            for function, reason in functions.items():
                with self.subTest(library=name, function=function, needed_because=reason):
                    self.assertTrue(any(one.startswith(function) for one in defined))


if __name__ == "__main__":
    sys.exit(unittest.main())
