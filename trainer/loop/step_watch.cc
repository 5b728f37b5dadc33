#include "trainer/loop/step_watch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "trainer/config/facts.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

// Returns 0 if the step cannot or need not be given up. The first step may take any time.
size_t StepWatch::PartsOf(const RunState& run, size_t micro_batches) const {
  if (!asks() || !run.strategy->averages_gradients()) return 0;
  if (!run.starting && !next_) return 0;
  if (!ObstacleTo("giving up a step", run.job.config).empty()) return 0;
  // Processes may have different numbers of virtual ranks.
  const int64_t least = run.ranks.count / run.mesh.data.size;
  return micro_batches / static_cast<size_t>(run.ranks.own.size()) * static_cast<size_t>(least);
}

void StepWatch::Begin(const RunState& run, size_t micro_batches) {
  began_ = Clock::now();
  micro_batches_ = micro_batches;
  parts_ = PartsOf(run, micro_batches);
  done_ = 0;
  buffers_.clear();
  if (parts_ == 0) return;
  for (const at::Tensor& buffer : run.model->buffers()) buffers_.push_back(buffer.clone());
}

void StepWatch::BeforeMicroBatch(const Mesh& mesh, double save_seconds) {
  if (parts_ == 0) return;
  const size_t done = done_++;
  const auto part = [this](size_t i) { return i * parts_ / micro_batches_; };
  if (done == 0 || part(done) == part(done - 1)) return;
  if (!mesh.device.is_cpu()) {
    const c10::impl::VirtualGuardImpl device(mesh.device.type());
    device.synchronizeStream(device.getStream(mesh.device));
  }
  const double of_each = Seconds() / static_cast<double>(done);
  const double rest = of_each * static_cast<double>(micro_batches_ - done);
  const at::Tensor votes = at::tensor({IsTooLate(rest, save_seconds) ? 1 : 0}, at::kLong);
  AllReduceOnHost(mesh.control.get(), votes);
  if (votes.item<int64_t>() > 0) throw StepGivenUp();
}

void StepWatch::GiveUp(const Model& model) {
  gave_up_ = true;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> buffers = model.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(buffers_[i]);
}

}  // namespace ddprun::trainer
