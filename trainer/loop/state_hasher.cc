#include "trainer/loop/state_hasher.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/check.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/report/state_hashes.h"

namespace ddprun::trainer {

StateHasher::StateHasher(const Model& model, const Mesh& mesh) : model_(model), mesh_(mesh) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) names_.push_back("gradient of " + item.key());
  }
  for (const auto& item : model.State()) names_.push_back(item.key());
}

void StateHasher::Add(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    hashes_.push_back(0);
    return;
  }
  const at::Tensor bytes = tensor.detach().cpu().contiguous();
  const auto* begin = static_cast<const std::byte*>(bytes.const_data_ptr());
  hashes_.push_back(HashBytes({begin, bytes.nbytes()}));
}

void StateHasher::HashGradients(std::span<const at::Tensor> gradients) {
  hashes_.clear();
  for (const at::Tensor& gradient : gradients) Add(gradient);
}

void StateHasher::HashWeights(int64_t step, const Observers* observers) {
  for (const auto& item : model_.State()) Add(item.value());
  DDPRUN_CHECK(hashes_.size() == names_.size());
  const auto count = static_cast<int64_t>(hashes_.size());
  const at::Tensor rows = at::zeros({mesh_.world.size, count}, at::kLong);
  auto* row = reinterpret_cast<uint64_t*>(rows.mutable_data_ptr<int64_t>());
  std::ranges::copy(hashes_, row + mesh_.world.rank * count);
  AllReduceOnHost(mesh_.control.get(), rows);  // other ranks have zeros in this rank's row
  if (observers == nullptr) return;
  StateHashes all{.step = step, .names = names_};
  for (int rank = 0; rank < mesh_.world.size; ++rank, row += count) {
    all.ranks.emplace_back(row, row + count);
  }
  observers->Notify(&Observer::OnStateHashes, all);
}

}  // namespace ddprun::trainer
