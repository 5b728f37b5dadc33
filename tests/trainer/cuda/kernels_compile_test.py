"""The kernels of trainer/cuda/kernels.cu compile for each kind of GPU with NVRTC, and keep all
their numbers in registers: a kernel that spills them into memory is several times slower."""

import ctypes
import glob
import os
import re
import unittest

CUDA = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], "trainer/cuda")
SITE = os.path.join(os.environ["LIBTORCH_FOLDER"], "..")
ARGUMENTS = "kernel_arguments.h"
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
TYPES = ("float", "Bf16", "Fp16")
# A processor has 65536 registers. Threads of a block: kLossThreads and kNormThreads.
MOST_REGISTERS = {"ddprun_losses": 65536 // 1024, "ddprun_norm": 65536 // 512,
                  "ddprun_norm_gradients": 65536 // 512}


def text(name):
    with open(os.path.join(CUDA, name), "rb") as file:
        return file.read()


class KernelsCompile(unittest.TestCase):
    def setUp(self):
        path, = glob.glob(os.path.join(SITE, "nvidia/*/lib/libnvrtc.so.1?"))
        self.nvrtc = ctypes.CDLL(path)

    def compile(self, architecture, type_name):
        """Returns what the assembler says of the registers."""
        program = ctypes.c_void_p()
        headers = (ctypes.c_char_p * 1)(text(ARGUMENTS))
        names = (ctypes.c_char_p * 1)(f"trainer/cuda/{ARGUMENTS}".encode())
        self.assertEqual(0, self.nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), text("kernels.cu"), b"kernels.cu", 1, headers, names))
        options = [f"--gpu-architecture={architecture}", "--std=c++17",
                   f"-DDDPRUN_TYPE={type_name}", "--ptxas-options=-v"]
        words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
        status = self.nvrtc.nvrtcCompileProgram(program, len(options), words)
        size = ctypes.c_size_t()
        self.nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetProgramLog(program, log)
        self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        self.assertEqual(status, 0, log.value.decode())
        return log.value.decode()

    def test_keep_their_numbers_in_registers(self):
        for architecture in ARCHITECTURES:
            for type_name in TYPES:
                log = self.compile(architecture, type_name)
                with self.subTest(architecture=architecture, type=type_name):
                    self.assertNotIn("warning", log)
                    found = re.findall(
                        r"entry function '(\w+)_\w+'.*?(\d+) bytes stack frame, "
                        r"(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
                        log, re.DOTALL)
                    self.assertEqual({row[0] for row in found}, set(MOST_REGISTERS))
                    for name, *memory, registers in found:
                        self.assertEqual(memory, ["0", "0", "0"], f"{name}: stack and spills")
                        self.assertLessEqual(int(registers), MOST_REGISTERS[name], name)


if __name__ == "__main__":
    unittest.main()
