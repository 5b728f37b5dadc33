#include "trainer/parallel/module_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "trainer/parallel/verify_model.h"

namespace ddprun::trainer {

namespace {

int64_t Bytes(double megabytes) {
  return std::llround(megabytes * 1024 * 1024);
}

}  // namespace

ModuleSync::Options ModuleSync::OptionsOf(const DistributedDataParallelOptions& options) {
  return {.reducer = {.limits = {.first_bytes = Bytes(options.first_bucket_mb),
                                 .cap_bytes = Bytes(options.bucket_cap_mb)},
                      .tune_limits = options.tune_buckets,
                      .overlap = options.overlap,
                      .find_unused_parameters = options.find_unused_parameters,
                      .static_graph = options.static_graph,
                      .update_in_backward = options.update_in_backward,
                      .comm_hook = options.comm_hook,
                      .check_finite = options.check_finite},
          .broadcast_buffers = options.broadcast_buffers};
}

ModuleSync::ModuleSync(const torch::nn::Module& module, const Mesh& mesh, const Options& options)
    : mesh_(mesh), broadcast_buffers_(options.broadcast_buffers) {
  std::vector<NamedParameter> trained;
  for (const auto& item : module.named_parameters()) {
    // A tensor of two names is one parameter, as in PyTorch's named_parameters().
    const auto is_it = [&](const auto& known) { return known.tensor.is_same(item.value()); };
    if (std::ranges::any_of(all_, is_it)) continue;
    all_.push_back({item.key(), item.value()});
    if (item.value().requires_grad()) trained.push_back(all_.back());
  }
  for (const auto& item : module.named_buffers()) buffers_.push_back({item.key(), item.value()});
  all_.insert(all_.end(), buffers_.begin(), buffers_.end());
  VerifySameModel(all_, *mesh_.control);
  BroadcastFrom(0, all_, *mesh_.data.group);
  reducer_ = std::make_unique<Reducer>(std::move(trained), mesh_, options.reducer);
}

void ModuleSync::BeforeForward() {
  if (!at::GradMode::is_enabled()) return;
  if (joining_) authority_ = Announce(/*active=*/true).last_active;
  reducer_->RebuildIfDue();
  if (synchronize_) SyncBuffers(authority_);
}

void ModuleSync::AfterForward(std::span<const at::Tensor> outputs) {
  if (at::GradMode::is_enabled()) reducer_->PrepareBackward(synchronize_, outputs);
}

void ModuleSync::SyncBuffers(int root) {
  if (broadcast_buffers_ && !buffers_.empty()) BroadcastFrom(root, buffers_, *mesh_.data.group);
}

ModuleSync::Others ModuleSync::Announce(bool active) {
  at::Tensor state = at::empty({2}, at::kLong);
  int64_t* data = state.mutable_data_ptr<int64_t>();
  data[0] = active ? mesh_.data.rank : -1;
  data[1] = active && synchronize_ ? 1 : 0;
  AllReduceOnHost(mesh_.control.get(), state, c10d::ReduceOp::MAX);
  return {.last_active = static_cast<int>(data[0]), .synchronize = data[1] != 0};
}

void ModuleSync::Join(const std::function<void()>& body) {
  joining_ = true;
  authority_ = 0;
  try {
    body();
  } catch (...) {
    joining_ = false;
    throw;
  }
  for (Others others = Announce(false); others.last_active >= 0; others = Announce(false)) {
    authority_ = others.last_active;
    reducer_->RebuildIfDue();
    if (!others.synchronize) continue;
    SyncBuffers(authority_);
    reducer_->ShadowBackward();
  }
  joining_ = false;
  BroadcastFrom(authority_, all_, *mesh_.data.group);
  authority_ = 0;
}

}  // namespace ddprun::trainer
