#include "trainer/strategies/strategy_parts.h"

#include <utility>

#include "base/failure.h"
#include "base/last_words.h"
#include "base/step_phase.h"

namespace ddprun::trainer {

void RunMicroBatch(const StepInputs& inputs,
                   size_t micro_batch,
                   Model& model,
                   const std::function<void()>& rest) {
  RunBackward(inputs.step, inputs.loss(model, inputs.micro_batches[micro_batch], micro_batch), {},
              rest);
}

void RunBackward(int64_t step,
                 const at::Tensor& output,
                 const at::Tensor& gradient,
                 const std::function<void()>& rest) {
  const InnerPhase phase(StepPhase::kBackward);
  try {
    output.backward(gradient);
    if (rest) rest();
  } catch (const Failure&) {
    throw;  // errors of communication, which runs during backward
  } catch (const c10::OutOfMemoryError&) {
    throw;  // CurrentDeviceError() describes these three
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const c10::DistBackendError&) {
    throw;
  } catch (...) {
    throw Failure(Error{
        .title = "GRADIENTS CANNOT BE COMPUTED",
        .where = "step " + std::to_string(step),
        .what = "While backward() went through the model, this was thrown:\n" + ExceptionText(),
        .hint = "In a model of your own, look for tensors changed in place after they were used, "
                "for targets of another type than the outputs (integers where floating point "
                "numbers belong), and for what its own autograd functions throw.",
        .page = "gradients-cannot-be-computed"});
  }
}

bool AddsGradientToSums(const Model& model, const std::string& parameter, const Mesh& mesh) {
  const StatePlacement placement = model.PlacementOf(parameter);
  const bool split = !placement.empty() && !placement.front().slice.global_shape.empty();
  return split || mesh.tensor.rank == 0;
}

TrainedParameters::TrainedParameters(const Model& model, const Mesh& mesh) {
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    all_.push_back(item.value());
    counted_.push_back(AddsGradientToSums(model, item.key(), mesh));
  }
}

std::vector<at::Tensor> TrainedParameters::SelectCounted(std::vector<at::Tensor> gradients) const {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!counted_[i]) gradients[i].reset();
  }
  std::erase_if(gradients, [](const at::Tensor& gradient) { return !gradient.defined(); });
  return gradients;
}

void ExchangeForAverages(Optimizer& optimizer, ShardedUpdate* shards) {
  if (shards == nullptr) return optimizer.SwapAverages();
  shards->Step([&](auto pieces) { optimizer.SwapAverages(pieces); });
}

std::vector<at::Tensor> OwnStateOf(std::span<const ShardedUnit> units, Optimizer& optimizer) {
  std::vector<at::Tensor> own;
  for (const ShardedUnit& unit : units) {
    own.insert(own.end(), unit.pieces.begin(), unit.pieces.end());
  }
  const StateDict state = SaveState([&](StateVisitor& visitor) { optimizer.NameState(visitor); });
  for (const StateTensor& one : state.tensors) own.push_back(one.tensor);
  return own;
}

std::vector<at::Tensor> OwnStateOf(ShardedUpdate* shards, Optimizer& optimizer) {
  if (shards == nullptr) return {};
  return OwnStateOf(shards->units(), optimizer);
}

void Share(ShardedUpdate* shards) {
  if (shards == nullptr) return;
  shards->Step([](std::span<const at::Tensor> /*pieces*/) {});
}

void BeginSection(const char* prefix,
                  std::optional<RankPart> own,
                  const Mesh& mesh,
                  StateVisitor& visitor) {
  if (mesh.tensor.size * mesh.pipeline.size == 1) return visitor.Section(prefix, own);
  visitor.Section(prefix, own, {.rank = mesh.data.rank, .size = mesh.data.size});
}

void NameModel(const Model& model,
               std::optional<RankPart> parameters,
               std::optional<RankPart> buffers,
               const Mesh& mesh,
               StateVisitor& visitor) {
  BeginSection("model.", parameters, mesh, visitor);
  for (const auto& item : model.named_parameters()) {
    visitor.Tensor(item.key(), item.value(), model.PlacementOf(item.key()));
  }
  BeginSection("model.", buffers, mesh, visitor);
  for (const auto& item : model.named_buffers()) visitor.Tensor(item.key(), item.value());
}

BucketSizesReport BucketSizesOf(const BucketTuning& tuning, int64_t step) {
  constexpr double kMiB = 1 << 20;
  BucketSizesReport report{.step = step, .chosen = tuning.chosen};
  for (const BucketTrial& trial : tuning.trials) {
    report.trials.push_back(
        {.bucket_cap_mb = static_cast<double>(trial.limits.cap_bytes) / kMiB,
         .first_bucket_mb = static_cast<double>(trial.limits.first_bytes) / kMiB,
         .buckets = trial.buckets,
         .seconds = trial.seconds});
  }
  return report;
}

}  // namespace ddprun::trainer
