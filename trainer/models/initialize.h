// Start values of layers as torch.nn's reset_parameters draws them (torch 2.11), from torch's
// default generator. Call them under NoGradGuard.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun::trainer {

// What an output of a layer with this weight sums over: [out, in] or [out, in, height, width].
int64_t FanIn(const at::Tensor& weight);

// torch.nn.Linear's and torch.nn.Conv2d's: bit for bit those of Python after the same manual_seed,
// if the layers come in the same order. An undefined bias is left alone.
void InitializeAsTorch(at::Tensor& weight, at::Tensor& bias);

// torch.nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu").
void KaimingNormalFanOut(at::Tensor& weight);

}  // namespace ddprun::trainer
