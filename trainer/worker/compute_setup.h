// Sets up how this process computes: its matrix engine and its types of numbers.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "base/env.h"
#include "trainer/config/training_config.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

// Lets GPUs compute float32 in TF32 if training.tf32 is true, and forbids it if not. With
// `lengths_change`, batches have texts of other lengths than the ones before, and attention is not
// cuDNN's. Sets it for the process; call it before training.
void SetUpDevices(const TrainingConfig& training, bool lengths_change);

// Lets a transformer compute on `device` with kernels of ddprun's own, if training.fused_kernels is
// true and they compute what LibTorch's compute: small losses and norms are compared first. Returns
// a line for the user, or "" for a CPU or another model. Waits for the device.
std::string SetUpKernels(const Job& job, c10::Device device);

// Chooses the matrix engine of the process as training.matmul_engine says. With "auto", a model of
// few parameters keeps LibTorch's default, without a measurement. Returns a line for the user, or
// "" if there was no choice. Throws Failure if the engine is not available (HasOneDnn).
std::string SetUpCompute(const TrainingConfig& training,
                         int64_t parameters,
                         const Environment& environment);

// Call it after SetUpCompute(), if a run resumes. With "auto", takes the engine that `run`
// (Checkpoint::run()) names, if it names an engine, because another engine gives other bits.
// Returns a warning if SetUpCompute() had chosen another engine, or "".
std::string KeepEngine(const TrainingConfig& training, const std::string& run);

}  // namespace ddprun::trainer
