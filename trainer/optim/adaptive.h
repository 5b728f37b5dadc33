// Optimizers whose state follows the gradients of each parameter.
#pragma once

#include <memory>
#include <vector>

#include <ddprun/optimizer.h>

namespace ddprun::trainer {

// torch.optim.Adam or AdamW by `options.kind`, with ATen's fused kernels. The state is "exp_avg"
// and "exp_avg_sq".
std::unique_ptr<Optimizer> MakeAdam(const OptimizerOptions& options,
                                    std::vector<ParameterGroup> groups);

// torch.optim.Adagrad without lr_decay: the state "sum" adds up squared gradients.
std::unique_ptr<Optimizer> MakeAdagrad(const OptimizerOptions& options,
                                       std::vector<ParameterGroup> groups);

// Lion (Chen et al., 2023): the update is the sign of a mean of gradients. The state is "exp_avg".
std::unique_ptr<Optimizer> MakeLion(const OptimizerOptions& options,
                                    std::vector<ParameterGroup> groups);

}  // namespace ddprun::trainer
