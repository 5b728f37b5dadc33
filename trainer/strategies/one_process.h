// DataParallel: one process trains on several devices. The first device has the model.
#pragma once

#include <memory>
#include <vector>

#include "trainer/config/strategy_config.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Makes a model like the strategy's model on a device. Its weights do not matter.
using MakeReplica = std::function<std::shared_ptr<Model>(c10::Device device)>;

struct OneProcessOptions {
  std::vector<c10::Device> devices;  // at least one; may contain the CPU several times
  size_t output_device = 0;          // index of the device that has the outputs and the loss
  DpLoss loss = DpLoss::kGathered;
};

// Makes the strategy of torch.nn.DataParallel. In each step it copies the parameters from
// devices[0] to the replicas on the others, divides the samples like torch.chunk, gathers the
// outputs (or losses), and sums the gradients on devices[0] in the order of the devices. Buffers
// are those of devices[0]. The state is that of MakeSingle().
//
// Forward and backward of each device run on a thread of its own, with an equal part of this
// thread's cores. A device's place in `devices` is part of the key of its random numbers.
//
// REQUIRES: `model` is on devices[0], and its code may run at the same time in several replicas.
std::unique_ptr<Strategy> MakeDataParallel(std::shared_ptr<Model> model,
                                           std::unique_ptr<Optimizer> optimizer,
                                           const MakeReplica& make_replica,
                                           const OneProcessOptions& options);

// Divides the samples into as many parts as torch.chunk does for this number of devices, and puts
// part i on devices[i].
std::vector<Batch> Scatter(const Batch& batch, std::span<const c10::Device> devices);

}  // namespace ddprun::trainer
