// DataParallel: one process, several devices, of which the first one has the model.
#pragma once

#include <memory>
#include <vector>

#include "trainer/config/strategy_config.h"
#include "trainer/parallel/strategy.h"

namespace ddprun::trainer {

// Makes a model like the strategy's own, with any weights, on a device.
using MakeReplica = std::function<std::shared_ptr<Model>(c10::Device device)>;

struct OneProcessOptions {
  std::vector<c10::Device> devices;  // one at least; the CPU may be several
  size_t output_device = 0;          // which of them has the outputs, and the loss
  DpLoss loss = DpLoss::kGathered;
};

// What torch.nn.DataParallel does: each step the parameters go from devices[0] to the replicas on
// the others, samples are cut as by torch.chunk, outputs (or losses) are gathered, gradients are
// summed on devices[0] in the order of the devices. Each device's forward and backward run on a
// thread of its own, with its share of this thread's cores; its random numbers are keyed by its
// place. Buffers are those of devices[0]. The state is MakeSingle's.
// REQUIRES: `model` is on devices[0], and its code may run at the same time in several replicas.
std::unique_ptr<Strategy> MakeDataParallel(std::shared_ptr<Model> model,
                                           std::unique_ptr<Optimizer> optimizer,
                                           const MakeReplica& make_replica,
                                           const OneProcessOptions& options);

// The samples in as many parts as torch.chunk makes of them for so many devices, each on its own.
std::vector<Batch> Scatter(const Batch& batch, std::span<const c10::Device> devices);

}  // namespace ddprun::trainer
