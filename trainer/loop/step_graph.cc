#include "trainer/loop/step_graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/last_words.h"
#include "trainer/config/facts.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

namespace {

// After this many steps the reducer's buckets are final, and the optimizer has all its state.
constexpr int64_t kStepsBefore = 3;

// Returns why the job's steps cannot be recorded, or "".
std::string GraphObstacle(const Job& job, const Mesh& mesh) {
  if (mesh.device.is_cpu()) return "training is on the CPU";
  if (mesh.make_graph == nullptr) return mesh.device.str() + " has none";
  const std::string setting = ObstacleTo("training.cuda_graph", job.config);
  const bool by_host = mesh.data.group != nullptr && mesh.data.group == mesh.data.host;
  return setting.empty() && by_host ? "gradients go through the host" : setting;
}

// Returns the number that targets are less than; 0 for users' own models.
int64_t ClassesOf(const ModelOptions& model) {
  return std::visit(
      [](const auto& options) -> int64_t {
        if constexpr (requires { options.num_labels; }) {
          return options.num_labels;
        } else if constexpr (requires { options.vocab_size; }) {
          return options.vocab_size;
        } else if constexpr (requires { options.sizes.back(); }) {
          return options.sizes.back();
        } else {
          return 0;
        }
      },
      model);
}

}  // namespace

std::unique_ptr<StepGraph> StepGraph::Make(const Job& job, const Mesh& mesh, const Log& log) {
  if (!job.config.training.cuda_graph) return nullptr;
  const std::string obstacle = GraphObstacle(job, mesh);
  if (obstacle.empty()) return std::make_unique<StepGraph>(ClassesOf(job.model), mesh, log);
  if (mesh.world.rank == 0) log.Info("CUDA graph: not used: " + obstacle);
  return nullptr;
}

// Takes another stream than the default one, which cannot be recorded.
StepGraph::StepGraph(int64_t classes, const Mesh& mesh, const Log& log)
    : classes_(classes),
      mesh_(mesh),
      log_(log),
      stream_(c10::impl::VirtualGuardImpl(mesh.device.type()).getStreamFromGlobalPool(mesh.device)),
      learning_rate_(at::empty({}, at::dtype(at::kDouble).device(mesh.device))) {}

bool StepGraph::Same(const Form& a, const Form& b) {
  const auto of_a = a.batch.Tensors(), of_b = b.batch.Tensors();
  for (size_t i = 0; i < of_a.size(); ++i) {
    const at::Tensor &one = *of_a[i], &other = *of_b[i];
    if (one.defined() != other.defined()) return false;
    if (one.defined() && (one.sizes() != other.sizes() || one.dtype() != other.dtype())) {
      return false;
    }
  }
  const at::Tensor &mask = a.batch.on_host.attention_mask, &other = b.batch.on_host.attention_mask;
  return a.batch.samples == b.batch.samples && a.batch.predictions == b.batch.predictions &&
         a.batch.LossWeight() == b.batch.LossWeight() && a.total_weight == b.total_weight &&
         (!mask.defined() || mask.equal(other));
}

bool StepGraph::Takes(const Batch& batch, double total_weight, int64_t step) {
  if (given_up_) return false;
  const Form form{batch, total_weight};
  const bool same = form_ && Same(form, *form_);
  if (graph_ == nullptr && !same) form_ = form;
  if (++steps_ <= kStepsBefore) return false;
  // If a target is too large, the model refuses it on the host, outside of a graph.
  const bool accepted = batch.on_host.largest_target.value_or(0) < classes_;
  // Either all ranks launch a collective with their graphs, or all ranks queue it.
  if (AllRanks(mesh_, same && accepted && batch.predictions > 0)) return true;
  if (!std::exchange(logged_other_form_, true)) {
    LogOnRankZero(
        "not used where the shape, padding or predictions of a batch are others than before, as "
        "in step " +
        std::to_string(step));
  }
  return false;
}

DeviceScalar StepGraph::RateOf(const DeviceScalar& rate) {
  const at::Tensor pinned = at::scalar_tensor(static_cast<double>(rate), at::kDouble).pin_memory();
  learning_rate_.copy_(pinned, /*non_blocking=*/true);
  return DeviceScalar(learning_rate_);
}

std::optional<StepGraph::Results> StepGraph::Launch(const Batch& batch,
                                                    double learning_rate,
                                                    const Step& step) {
  const at::NoGradGuard no_grad;
  if (graph_ == nullptr) {
    for (at::Tensor* tensor : form_->batch.Tensors()) {
      if (tensor->defined()) *tensor = at::empty_like(*tensor);
    }
    const bool recorded = Record(step);
    if (!AllRanks(mesh_, recorded)) {
      if (recorded) LogOnRankZero("not used: a step cannot be recorded on another rank");
      given_up_ = true;
      results_.reset();
      graph_.reset();
      return std::nullopt;
    }
  }
  const auto from = batch.Tensors();
  const auto to = form_->batch.Tensors();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i]->defined()) to[i]->copy_(*from[i]);
  }
  RateOf(learning_rate);
  graph_->Replay();
  // The next replay may overwrite results_ before a report reads it.
  const at::Tensor results = results_.clone();
  return Results{DeviceScalar(results[0]), DeviceScalar(results[1])};
}

bool StepGraph::Record(const Step& step) {
  try {
    graph_ = mesh_.make_graph(mesh_.device);
    const KeepHostCopies kept(host_copies_);
    const at::AutoGradMode grad(true);
    graph_->Begin();
    const Results results = step(form_->batch, DeviceScalar(learning_rate_));
    results_ = at::stack({results.loss.on_device(), results.grad_norm.on_device()});
    graph_->End();
  } catch (...) {
    std::string why = ExceptionText();
    std::ranges::replace(why, '\n', ' ');
    LogOnRankZero("not used: a step cannot be recorded: " + why);
    graph_.reset();  // ends the capture before this rank waits for others
    return false;
  }
  return true;
}

void StepGraph::LogOnRankZero(const std::string& text) const {
  if (mesh_.world.rank == 0) log_.Info("CUDA graph: " + text);
}

StepGraph::Step StepToRecord(
    const Step& step,
    double max_grad_norm,
    std::function<at::Tensor(Model& model, const Batch& batch, StepSums& sums)> loss) {
  return [step, max_grad_norm, loss = std::move(loss)](const Batch& recorded,
                                                       const DeviceScalar& learning_rate) {
    StepSums sums;
    const auto own = [&](Model& model, const Batch& batch, size_t /*index*/) {
      return loss(model, batch, sums);
    };
    step.strategy.ForwardBackward({.step = step.number,
                                   .learning_rate = learning_rate,
                                   .micro_batches = {&recorded, 1},
                                   .loss = own});
    DeviceScalar norm;
    if (max_grad_norm > 0) norm = step.strategy.ClipGradients(max_grad_norm);
    step.strategy.Step();
    if (max_grad_norm == 0) norm = step.strategy.GradientNorm();
    return StepGraph::Results{.loss = sums.loss, .grad_norm = norm};
  };
}

}  // namespace ddprun::trainer
