// What strategies are made of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/parallel/strategy.h"

namespace ddprun::trainer {

// One micro-batch through the model and back, as strategies do it. Throws Failure for what backward
// throws. `rest`: what of backward the loss's graph does not know.
void RunMicroBatch(const StepInputs& inputs,
                   size_t micro_batch,
                   Model& model,
                   const std::function<void()>& rest = {});
// The way back alone; `gradient`: of the output, undefined for a loss.
void RunBackward(int64_t step,
                 const at::Tensor& output,
                 const at::Tensor& gradient = {},
                 const std::function<void()>& rest = {});

// Whether this rank counts a parameter's gradient in sums over the ranks of the tensor axis: what
// these have alike, only the first one does.
bool CountsInSums(const Model& model, const std::string& parameter, const Mesh& mesh);

// A model's trained parameters; which gradients this rank counts.
class TrainedParameters {
 public:
  TrainedParameters(const Model& model, const Mesh& mesh);
  const std::vector<at::Tensor>& all() const { return all_; }
  // Of gradients in their order, some of them undefined, those that are there and count.
  std::vector<at::Tensor> Counted(std::vector<at::Tensor> gradients) const;

 private:
  std::vector<at::Tensor> all_;
  std::vector<bool> counted_;
};

// Begins a section of a model that the ranks of the tensor and pipeline axes share out. `part`: of
// StateVisitor::Section, among the ranks of the data axis.
void BeginSection(const char* prefix, RankPart part, const Mesh& mesh, StateVisitor& visitor);

}  // namespace ddprun::trainer
