// What every step does to gradients and weights, as hashes (report.state_hashes).
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

  // Within a step: averaged, not yet clipped, as Strategy::Gradients() gives them.
  void HashGradients(std::span<const at::Tensor> gradients);
  // After the step, once for each call of the above: hashes parameters and buffers, and tells the
  // observers, which are nullptr on all ranks but 0, what all ranks have. A collective.
  void HashWeights(int64_t step, const Observers* observers);

 private:
  void Add(const at::Tensor& tensor);

  const Model& model_;
  const Mesh mesh_;
  std::vector<std::string> names_;
  std::vector<uint64_t> hashes_;  // of this step, as many as names_ in its end
};

}  // namespace ddprun::trainer
