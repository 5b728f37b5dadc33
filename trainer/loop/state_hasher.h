// Hashes the gradients and the weights of every step (report.state_hashes).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/loop/step_part.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// One thread. `model` must outlive it.
class StateHasher final : public StepPart {
 public:
  StateHasher(const Model& model, const Mesh& mesh);

  void AfterGradients(const Step& step) override { HashGradients(step.strategy.Gradients()); }
  void AfterUpdate(const Step& step) override { HashWeights(step.number, step.observers); }

  // Call it within a step, with Strategy::Gradients() before they are clipped.
  void HashGradients(std::span<const at::Tensor> gradients);
  // A collective, once after each HashGradients(). Hashes parameters and buffers, and gives the
  // observers the hashes of all ranks. `observers` is nullptr on all ranks but 0.
  void HashWeights(int64_t step, const Observers* observers);

 private:
  void Add(const at::Tensor& tensor);

  const Model& model_;
  const Mesh mesh_;
  std::vector<std::string> names_;
  std::vector<uint64_t> hashes_;  // of this step, as many as names_ in its end
};

}  // namespace ddprun::trainer
