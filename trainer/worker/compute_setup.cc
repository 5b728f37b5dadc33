#include "trainer/worker/compute_setup.h"

#include <ATen/Context.h>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/compute/device_kernels.h"
#include "trainer/compute/matmul_choice.h"
#include "trainer/compute/precision.h"
#include "trainer/job/run_text.h"

namespace ddprun::trainer {

namespace {

// The products of models with fewer parameters are fastest with LibTorch's default (kSmallProduct).
constexpr int64_t kSmallModel = 1 << 16;

void CheckOneDnn() {
  if (HasOneDnn()) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NO ONEDNN",
                      .where = "training.matmul_engine",
                      .what = "The config asks for \"onednn\", but this LibTorch has no oneDNN "
                              "that can be reached, or refuses it on this processor (on x86 it "
                              "wants AVX-512).",
                      .hint = "Take \"auto\", or the LibTorch that scripts/setup.sh installs.",
                      .page = "no-onednn"});
}

std::string Bf16Line() {
  return HasBf16Instructions() ? "matrix products: bfloat16, by oneDNN"
                               : "matrix products: bfloat16, which this processor has no "
                                 "instructions for: float32 is "
                                 "likely to be faster";
}

}  // namespace

void SetUpDevices(const TrainingConfig& training, bool lengths_change) {
  // cuDNN uses TF32 by default.
  at::globalContext().setAllowTF32CuDNN(training.tf32);
  at::globalContext().setAllowTF32CuBLAS(training.tf32);
  // cuDNN's attention, LibTorch's first choice on an H100, makes a plan for each new shape on the
  // host.
  at::globalContext().setSDPUseCuDNN(!lengths_change);
}

std::string SetUpKernels(const Job& job, c10::Device device) {
  UseDeviceKernels(nullptr);
  const TrainingConfig& training = job.config.training;
  const CudaModule* const module = job.device.module;
  if (module == nullptr || !device.is_cuda() || TransformerIn(job.model) == nullptr) return "";
  std::string why = "training.fused_kernels is false";
  if (training.fused_kernels) {
    try {
      const PrecisionScope scope(training.precision);
      const auto kernels = module->make_kernels(device, ComputeType(), why);
      if (kernels != nullptr) why = CompareWithAten(kernels, device);
      if (kernels != nullptr && why.empty()) {
        UseDeviceKernels(kernels);
        return "fused kernels: for norms and the loss of a language model";
      }
    } catch (const c10::Error& error) {
      UseDeviceKernels(nullptr);
      why = error.what_without_backtrace();
    }
  }
  return "fused kernels: not used: " + why;
}

std::string SetUpCompute(const TrainingConfig& training,
                         int64_t parameters,
                         const Environment& environment) {
  if (training.matmul_engine == MatmulSetting::kOneDnn) {
    CheckOneDnn();
    UseMatmulEngine(MatmulEngine::kOneDnn);
  }
  if (training.precision == Precision::kBf16) return Bf16Line();
  if (training.precision == Precision::kFp16) {
    return "matrix products: float16, which is for GPUs: on a CPU it is many times slower";
  }
  // With virtual ranks, the bits must not depend on which engine is faster on this machine.
  if (training.matmul_engine != MatmulSetting::kAuto || training.virtual_ranks > 0) {
    return std::string("matrix products: ") + MatmulEngineName(CurrentMatmulEngine());
  }
  if (parameters < kSmallModel) return "";
  const EngineChoice choice = ChooseEngine(EngineFile(environment));
  UseMatmulEngine(choice.engine);
  return choice.Describe();
}

std::string KeepEngine(const TrainingConfig& training, const std::string& run) {
  if (training.matmul_engine != MatmulSetting::kAuto || training.virtual_ranks > 0) return "";
  const std::string chosen = MatmulEngineName(CurrentMatmulEngine());
  const std::string kept = ReadRunText(run).value("matmul_engine", chosen);
  if (kept == chosen) return "";
  const std::string was = "Matrix products were done by \"" + kept + "\" until here, ";
  const bool of_onednn = kept == MatmulEngineName(MatmulEngine::kOneDnn);
  if (of_onednn && !HasOneDnn()) {
    return was + "which is not to be had here: from here on \"" + chosen +
           "\" does them, with other last digits.";
  }
  UseMatmulEngine(of_onednn ? MatmulEngine::kOneDnn : MatmulEngine::kDefault);
  return was + "and are from here on, for the same bits; by itself \"auto\" takes \"" + chosen +
         "\" here. training.matmul_engine changes it.";
}

}  // namespace ddprun::trainer
