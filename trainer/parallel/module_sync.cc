#include "trainer/parallel/module_sync.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "base/failure.h"
#include "trainer/parallel/mesh_collectives.h"

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

ModuleTensors::ModuleTensors(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    const auto is_it = [&](const auto& known) { return known.tensor.is_same(item.value()); };
    if (std::ranges::any_of(all, is_it)) continue;
    all.push_back({item.key(), item.value()});
    (item.value().requires_grad() ? trained : others).push_back(all.back());
  }
  for (const auto& item : module.named_buffers()) buffers.push_back({item.key(), item.value()});
  all.insert(all.end(), buffers.begin(), buffers.end());
  others.insert(others.end(), buffers.begin(), buffers.end());
}

ModuleSync::ModuleSync(const torch::nn::Module& module, const Mesh& mesh, const Options& options)
    : mesh_(mesh),
      tensors_(module),
      reducer_options_(options.reducer),
      broadcast_buffers_(options.broadcast_buffers) {
  if (mesh_.control == nullptr) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "NO PROCESS GROUP",
                        .where = "DistributedDataParallel",
                        .what = "The model is to be wrapped with a process group that is nullptr.",
                        .hint = "Give the one that ddprun::init_process_group() returns.",
                        .page = "no-process-group"});
  }
  if (options.rejoins) return;
  VerifySameModel(tensors_.all, *mesh_.control);
  BroadcastFrom(0, tensors_.all, *mesh_.data.group);
  MakeReducer();
}

void ModuleSync::MakeReducer() {
  reducer_ = std::make_unique<Reducer>(tensors_.trained, mesh_, reducer_options_);
}

void ModuleSync::Rejoin(int giver) {
  VerifySameModel(tensors_.all, *mesh_.control);
  if (reducer_ == nullptr) MakeReducer();
  reducer_->Rejoin(giver);
}

void ModuleSync::BeforeForward() {
  if (!at::GradMode::is_enabled()) return;
  if (joining_) source_rank_ = ExchangeActive(/*active=*/true).last_active;
  reducer_->RebuildIfDue();
  if (synchronize_) SyncBuffers(source_rank_);
}

void ModuleSync::AfterForward(std::span<const at::Tensor> outputs) {
  if (at::GradMode::is_enabled()) reducer_->PrepareBackward(synchronize_, outputs);
}

void ModuleSync::SyncBuffers(int root) {
  if (broadcast_buffers_) BroadcastFrom(root, tensors_.buffers, *mesh_.data.group);
}

ModuleSync::OtherRanks ModuleSync::ExchangeActive(bool active) {
  at::Tensor state = at::empty({2}, at::kLong);
  int64_t* data = state.mutable_data_ptr<int64_t>();
  data[0] = active ? mesh_.data.rank : -1;
  data[1] = active && synchronize_ ? 1 : 0;
  AllReduceOnHost(mesh_.control.get(), state, c10d::ReduceOp::MAX);
  return {.last_active = static_cast<int>(data[0]), .synchronize = data[1] != 0};
}

void ModuleSync::Join(const std::function<void()>& body) {
  joining_ = true;
  source_rank_ = 0;
  try {
    body();
  } catch (...) {
    joining_ = false;
    throw;
  }
  for (OtherRanks others = ExchangeActive(false); others.last_active >= 0;
       others = ExchangeActive(false)) {
    source_rank_ = others.last_active;
    reducer_->RebuildIfDue();
    if (!others.synchronize) continue;
    SyncBuffers(source_rank_);
    reducer_->ShadowBackward();
  }
  joining_ = false;
  BroadcastFrom(source_rank_, tensors_.all, *mesh_.data.group);
  source_rank_ = 0;
}

namespace {

// Bytes of tensors that one collective copies: large compared with its fixed cost, small compared
// with a model's memory.
constexpr size_t kBatchBytes = size_t{4} << 20;

// Returns one line per tensor: "name Float [10, 5]", with " without gradient" if it is not trained.
std::string Describe(const std::vector<NamedParameter>& tensors) {
  std::ostringstream text;
  for (const NamedParameter& parameter : tensors) {
    text << parameter.name << " " << parameter.tensor.scalar_type() << " "
         << parameter.tensor.sizes()
         << (parameter.tensor.requires_grad() ? "" : " without gradient") << "\n";
  }
  return text.str();
}

// FNV-1a, which is enough to find mistakes.
int64_t Hash(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<int64_t>(hash);
}

std::string BroadcastText(const std::string& text, int64_t size, c10d::Backend& control) {
  at::Tensor bytes = at::zeros({size}, at::kByte);
  if (control.getRank() == 0) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  std::vector<at::Tensor> tensors = {bytes};
  control.broadcast(tensors, c10d::BroadcastOptions{})->wait();
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(size)};
}

std::string FirstDifference(const std::string& theirs, const std::string& mine) {
  std::istringstream theirs_lines(theirs);
  std::istringstream mine_lines(mine);
  for (int64_t number = 1;; ++number) {
    std::string a;
    std::string b;
    const bool has_a = static_cast<bool>(std::getline(theirs_lines, a));
    const bool has_b = static_cast<bool>(std::getline(mine_lines, b));
    if (!has_a && !has_b) return "";
    if (a == b && has_a == has_b) continue;
    return "\nThe first difference is tensor " + std::to_string(number) + ":\n    rank 0 has " +
           (has_a ? a : "no more tensors") + "\n    here is    " + (has_b ? b : "no more tensors");
  }
}

}  // namespace

void VerifySameModel(const std::vector<NamedParameter>& tensors, c10d::Backend& control) {
  const std::string mine = Describe(tensors);
  at::Tensor own = at::empty({2}, at::kLong);
  own[0] = Hash(mine);
  own[1] = static_cast<int64_t>(mine.size());
  at::Tensor all = at::empty({control.getSize(), 2}, at::kLong);
  control._allgather_base(all, own, c10d::AllgatherOptions{})->wait();
  std::string differing;
  for (int rank = 1; rank < control.getSize(); ++rank) {
    if (at::equal(all[rank], all[0])) continue;
    differing += (differing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (differing.empty()) return;
  const bool one = differing.find(',') == std::string::npos;
  const std::string theirs = BroadcastText(mine, all[0][1].item<int64_t>(), control);
  throw Failure(Error{.title = "DIFFERENT MODELS",
                      .where = "rank " + std::to_string(control.getRank()),
                      .what = (one ? "Rank " : "Ranks ") + differing + (one ? " has " : " have ") +
                              "another model than rank 0." + FirstDifference(theirs, mine),
                      .hint = "All ranks must build the same model: look for what depends on the "
                              "rank,\nor on a file that differs between nodes.",
                      .page = "different-models"});
}

void BroadcastFrom(int root, const std::vector<NamedParameter>& tensors, c10d::Backend& group) {
  const at::NoGradGuard no_grad;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  const auto broadcast = [&](const at::Tensor& tensor) {
    std::vector<at::Tensor> single = {tensor};
    group.broadcast(single, options)->wait();
  };
  const auto broadcast_together = [&](std::vector<at::Tensor>& batch) {
    if (batch.empty()) return;
    const at::Tensor flat = at::flatten_dense_tensors(batch);
    broadcast(flat);
    if (group.getRank() != root) {
      at::_foreach_copy_(batch, at::unflatten_dense_tensors(flat, batch));
    }
    batch.clear();
  };
  std::map<at::ScalarType, std::vector<at::Tensor>> batches;
  std::map<at::ScalarType, size_t> bytes;
  for (const NamedParameter& parameter : tensors) {
    const at::Tensor tensor = parameter.tensor.detach();
    if (tensor.nbytes() >= kBatchBytes) {
      broadcast(tensor);
      continue;
    }
    const at::ScalarType type = tensor.scalar_type();
    if (bytes[type] + tensor.nbytes() > kBatchBytes) {
      broadcast_together(batches[type]);
      bytes[type] = 0;
    }
    batches[type].push_back(tensor);
    bytes[type] += tensor.nbytes();
  }
  for (auto& [type, batch] : batches) broadcast_together(batch);
}

}  // namespace ddprun::trainer
