#include "trainer/parallel/sharded_gradients.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "trainer/compute/norm.h"
#include "trainer/parallel/gradient_errors.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kMostFlights = 2;

// Begins to average `flat` over all ranks; `part` receives this rank's part of the result.
c10::intrusive_ptr<c10d::Work> AveragePart(const Axis& axis, at::Tensor part, at::Tensor flat) {
  if (axis.size == 1) {
    part.copy_(flat);
    return nullptr;
  }
  c10d::ReduceScatterOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  return axis.group->_reduce_scatter_base(part, flat, options);
}

}  // namespace

ShardedGradients::ShardedGradients(std::span<ShardedUnit> units,
                                   std::span<const NamedParameter> table,
                                   const Mesh& mesh,
                                   const Options& options)
    : mesh_(mesh), options_(options), buckets_([this](int64_t elements, const auto& type) {
        return FlatOn(mesh_.shard, elements, type);
      }) {
  std::map<const void*, int64_t> blocks_before;
  for (const NamedParameter& parameter : table) {
    blocks_before[parameter.tensor.unsafeGetTensorImpl()] = blocks_;
    blocks_ += NormBlocksOf(parameter.tensor.numel());
  }
  std::vector<int64_t> own_blocks;
  std::vector<double> own_counts;
  for (size_t unit_index = 0; unit_index < units.size(); ++unit_index) {
    ShardedUnit& unit = units[unit_index];
    if (unit.pieces.empty()) continue;
    Unit& own = units_.emplace_back(Unit{.unit = &unit, .index = unit_index, .sum = {}});
    const auto type = unit.layout.parameters()[0].tensor.options().requires_grad(false);
    own.sum = FlatOn(mesh.replica, unit.layout.part(), type);
    for (size_t i = 0; i < unit.pieces.size(); ++i) {
      const at::Tensor& parameter = unit.layout.parameters()[i].tensor;
      hooks_.Add(parameter, [this, index = units_.size() - 1, i] { OnGradient(index, i); });
      own.blocks.push_back(blocks_before.at(parameter.unsafeGetTensorImpl()) +
                           unit.layout.PieceBegin(i) / kNormBlock);
      own.adds_to_sums.push_back(!options.adds_to_sums ||
                                 options.adds_to_sums(unit.layout.parameters()[i].name));
      for (int64_t block = 0; block < NormBlocksOf(unit.pieces[i].numel()); ++block) {
        own_blocks.push_back(own.blocks.back() + block);
        own_counts.push_back(own.adds_to_sums.back() ? 1 : 0);
      }
    }
  }
  own_blocks_ = ToDevice(at::tensor(own_blocks, at::kLong), mesh.device);
  own_counts_ = ToDevice(at::tensor(own_counts, at::kDouble), mesh.device);
}

void ShardedGradients::BeginStep() {
  for (Unit& unit : units_) unit.begun = false;
  exposed_seconds_ = 0;
}

void ShardedGradients::Rejoin() {
  flights_.clear();
  of_replicas_.clear();
}

void ShardedGradients::PrepareBackward(bool synchronize) {
  synchronize_ = synchronize;
  ++backwards_;
  expected_ = true;
  // These resets also clean up after a backward that ended in an exception.
  end_queued_ = false;
  flights_.clear();
  of_replicas_.clear();
  to_launch_ = units_.size();
  for (Unit& unit : units_) {
    // An optimizer's zero_grad() also begins a new step.
    unit.begun = unit.begun && std::ranges::all_of(unit.unit->pieces, [](const at::Tensor& piece) {
                   return piece.numel() == 0 || piece.grad().defined();
                 });
    unit.missing = unit.unit->pieces.size();
    for (const NamedParameter& parameter : unit.unit->layout.parameters()) {
      parameter.tensor.mutable_grad().reset();
    }
  }
}

void ShardedGradients::OnGradient(size_t index, size_t parameter) {
  Unit& unit = units_[index];
  const NamedParameter& own = unit.unit->layout.parameters()[parameter];
  const auto refuse = [&](const char* what, const char* hint) {
    throw BadGradient(Where(), own.name + " " + what + ".", hint);
  };
  if (!expected_ || unit.missing == 0) {
    refuse("got a gradient that would not be averaged: no forward came before",
           "Call the wrapped model, not its module, once before every backward; add up several "
           "losses for\none backward.");
  }
  if (own.tensor.grad().layout() != at::kStrided) {
    refuse("has a sparse gradient, which cannot be divided among the ranks", "");
  }
  if (options_.check_finite && !at::isfinite(own.tensor.grad()).all().item<bool>()) {
    refuse("has a gradient with infinities or NaNs", "");
  }
  if (!std::exchange(end_queued_, true)) {
    torch::autograd::Engine::get_default_engine().queue_callback([this] { OnBackwardEnd(); });
  }
  if (--unit.missing > 0) return;
  if (options_.on_complete) options_.on_complete(unit.index);
  LaunchComplete();
}

// Launches complete units, in one order on all ranks.
void ShardedGradients::LaunchComplete() {
  while (to_launch_ > 0 && units_[to_launch_ - 1].missing == 0) {
    if (options_.recorder != nullptr) {
      options_.recorder->SetBucket(static_cast<int>(units_.size() - to_launch_));
    }
    Launch(units_[--to_launch_]);
  }
}

void ShardedGradients::Launch(Unit& unit) {
  const at::NoGradGuard no_grad;
  if (flights_.size() == kMostFlights) FinishFirstFlight();
  const UnitLayout& layout = unit.unit->layout;
  const at::Tensor taken = buckets_.Take(layout.elements(), unit.sum.options());
  const at::Tensor bucket = taken.narrow(0, 0, layout.elements());
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    at::Tensor& gradient = layout.parameters()[i].tensor.mutable_grad();
    layout.Whole(bucket, i).copy_(gradient);
    gradient.reset();
  }
  const at::Tensor part = unit.begun ? parts_.Take(layout.part(), unit.sum.options()) : unit.sum;
  flights_.push_back({.unit = &unit,
                      .bucket = taken,
                      .part = part,
                      .work = AveragePart(mesh_.shard, part.narrow(0, 0, layout.part()), bucket)});
}

void ShardedGradients::FinishFirstFlight() {
  const Stopwatch stopwatch(exposed_seconds_);
  const at::NoGradGuard no_grad;
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  if (flight.work != nullptr) flight.work->wait();
  Unit& unit = *flight.unit;
  if (std::exchange(unit.begun, true)) {
    unit.sum.add_(flight.part.narrow(0, 0, unit.unit->layout.part()));
    parts_.GiveBack(flight.part);
  }
  buckets_.GiveBack(flight.bucket);
  if (synchronize_ && mesh_.replica.size > 1) {
    of_replicas_.push_back(BeginAllReduce(*mesh_.replica.group, unit.sum, c10d::ReduceOp::AVG));
  }
}

void ShardedGradients::OnBackwardEnd() {
  if (to_launch_ > 0) ThrowMissingGradients();
  while (!flights_.empty()) FinishFirstFlight();
  const Stopwatch stopwatch(exposed_seconds_);
  for (const auto& work : of_replicas_) work->wait();
  of_replicas_.clear();
  for (const Unit& unit : units_) {
    for (size_t i = 0; i < unit.unit->pieces.size(); ++i) {
      at::Tensor& gradient = unit.unit->pieces[i].mutable_grad();
      if (!gradient.defined()) gradient = unit.unit->layout.Piece(unit.sum, i);
    }
  }
  expected_ = false;
}

std::vector<at::Tensor> ShardedGradients::Gradients() const {
  std::vector<at::Tensor> gradients;
  for (const Unit& unit : units_) {
    for (const at::Tensor& piece : unit.unit->pieces) gradients.push_back(piece.grad());
  }
  return gradients;
}

// Returns the squares by block of the table; 0 for other ranks' blocks.
at::Tensor ShardedGradients::OwnSquares() const {
  const std::vector<at::Tensor> gradients = Gradients();
  const bool on_host = units_.empty() || IsForHostKernels(units_[0].sum);
  const at::Tensor squares =
      at::zeros({blocks_}, at::dtype(at::kDouble).device(on_host ? at::kCPU : mesh_.device));
  if (!on_host) {
    const at::Tensor own = SquaresByBlockOnDevice(gradients);
    if (own.numel() == own_blocks_.numel()) squares.index_copy_(0, own_blocks_, own * own_counts_);
    return squares;  // unless no backward has produced gradients yet
  }
  const std::vector<double> own = SquaresByBlock(gradients);
  for (auto next = own.begin(); const Unit& unit : units_) {
    for (size_t i = 0; i < unit.blocks.size(); ++i) {
      // 0 if the piece has no gradient yet.
      const int64_t count = NormBlocksOf(unit.unit->pieces[i].grad().numel());
      double* const blocks = squares.mutable_data_ptr<double>() + unit.blocks[i];
      if (unit.adds_to_sums[i]) std::copy_n(next, count, blocks);
      next += count;
    }
  }
  return squares;
}

DeviceScalar ShardedGradients::Norm() const {
  const at::NoGradGuard no_grad;
  const at::Tensor squares = OwnSquares();
  // Each block belongs to one rank, so adding the other ranks' zeros changes no bit.
  AllReduceOnHost(mesh_.shard.group.get(), squares);
  if (units_.empty() || !IsForHostKernels(units_[0].sum)) {
    return NormOverModel(DeviceScalar(squares.sum()), mesh_);
  }
  const double* data = squares.const_data_ptr<double>();
  return NormOverModel(std::accumulate(data, data + blocks_, 0.0), mesh_);
}

std::vector<at::Tensor> ShardedGradients::FlatGradients() const {
  std::vector<at::Tensor> sums;
  for (const Unit& unit : units_) sums.push_back(unit.sum);
  return sums;
}

std::string ShardedGradients::Where() const {
  return "rank " + std::to_string(mesh_.data.rank) + ", backward " + std::to_string(backwards_);
}

void ShardedGradients::ThrowMissingGradients() const {
  std::vector<std::string> missing;
  size_t all = 0;
  for (const Unit& unit : units_) {
    for (const NamedParameter& parameter : unit.unit->layout.parameters()) {
      ++all;
      if (unit.missing == 0 || parameter.tensor.grad().defined()) continue;
      missing.push_back(parameter.name);
    }
  }
  throw MissingGradients(Where(), missing, all,
                         "train with \"ddp\" or \"zero1\" and\nfind_unused_parameters.");
}

}  // namespace ddprun::trainer
