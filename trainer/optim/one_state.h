// Optimizers that keep one tensor of state for each parameter, by ATen's operations on lists.
#pragma once

#include <memory>
#include <vector>

#include <ddprun/optimizer.h>

namespace ddprun::trainer {

// torch.optim.Adagrad without lr_decay: the state "sum" adds up squared gradients.
std::unique_ptr<Optimizer> MakeAdagrad(const OptimizerOptions& options,
                                       std::vector<ParameterGroup> groups);

// Lion (Chen et al., 2023): the update is the sign of a mean of gradients. The state is "exp_avg".
std::unique_ptr<Optimizer> MakeLion(const OptimizerOptions& options,
                                    std::vector<ParameterGroup> groups);

}  // namespace ddprun::trainer
