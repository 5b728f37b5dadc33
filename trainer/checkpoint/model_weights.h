// Which tensors of a checkpoint are the model that a run has trained.
#pragma once

#include <string>
#include <string_view>

#include <ddprun/optimizer.h>
#include "trainer/checkpoint/checkpoint.h"

namespace ddprun::trainer {

// The prefix of the model's tensors in a checkpoint.
inline constexpr std::string_view kModelPrefix = "model.";

// Returns the name of the tensor that has the weights of "model.fc.weight": its average, if the run
// keeps averages, or else itself.
inline std::string WeightsIn(const Checkpoint& checkpoint, const std::string& name) {
  const auto alias = checkpoint.aliases().find(name);
  const std::string& stored = alias == checkpoint.aliases().end() ? name : alias->second;
  std::string average = AverageName("optimizer." + stored.substr(kModelPrefix.size()));
  return checkpoint.tensors().contains(average) ? average : name;
}

}  // namespace ddprun::trainer
