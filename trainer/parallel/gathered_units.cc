#include "trainer/parallel/gathered_units.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "trainer/comm/host_process_group_parts.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

namespace {

// Sets the memory of the tensor's storage, and so of all tensors in it. Undefined `buffer`: none.
void PointTo(const at::Tensor& tensor, const at::Tensor& buffer) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  void* data = buffer.defined() ? buffer.mutable_data_ptr() : nullptr;
  storage->set_data_ptr_noswap(at::DataPtr(data, tensor.device()));
  storage->set_nbytes(buffer.defined() ? tensor.nbytes() : 0);
}

}  // namespace

GatheredUnits::GatheredUnits(std::span<const NamedParameter> parameters,
                             const std::vector<std::vector<size_t>>& blocks,
                             const Mesh& mesh,
                             bool rejoins)
    : axis_(mesh.shard) {
  std::vector<int> uses(parameters.size());
  for (const std::vector<size_t>& block : blocks) {
    for (const size_t index : block) ++uses[index];
  }
  std::vector<NamedParameter> others;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (uses[i] != 1) others.push_back(parameters[i]);
  }
  const auto add = [&](std::vector<NamedParameter> members) {
    units_.push_back({.layout = UnitLayout(std::move(members), axis_.rank, axis_.size)});
    states_.emplace_back();
    ShardUnit(units_.back(), mesh, rejoins);
  };
  add(std::move(others));
  for (const std::vector<size_t>& block : blocks) {
    std::vector<NamedParameter> members;
    for (const size_t index : block) {
      if (uses[index] == 1) members.push_back(parameters[index]);
    }
    add(std::move(members));
  }
}

// A running gather owns its memory, so it needs no wait here.
GatheredUnits::~GatheredUnits() {
  for (const ShardedUnit& unit : units_) {
    if (unit.flat.defined()) PointTo(unit.flat, {});
  }
}

at::Tensor GatheredUnits::MakePart(int64_t elements, const at::TensorOptions& type) {
  in_place_ = axis_.size == 1;
  auto* const group = dynamic_cast<HostProcessGroup*>(axis_.group.get());
  if (axis_.size > 1 && group != nullptr && type.device().is_cpu()) {
    const at::Tensor part = PartsInPlace::Allocate(*group, elements, type);
    in_place_ = part.defined();
    if (in_place_) return part;
  }
  return FlatOn(axis_, elements, type);
}

// A collective.
void GatheredUnits::MapParts(State& state) const {
  if (!in_place_) return;
  state.in_place = axis_.size == 1 ? state.part
                                   : PartsInPlace::Map(
                                         dynamic_cast<HostProcessGroup&>(*axis_.group), state.part);
}

void GatheredUnits::ShardUnit(ShardedUnit& unit, const Mesh& mesh, bool rejoins) {
  State& state = states_.back();
  if (unit.layout.elements() == 0) return;
  const at::NoGradGuard no_grad;
  const auto type = unit.layout.parameters()[0].tensor.options().requires_grad(false);
  if (rejoins) {
    state.part = MakePart(unit.layout.part(), type);
  } else {
    const at::Tensor whole = FlatOn(mesh.data, unit.layout.elements(), type);
    unit.layout.MoveTo(whole);
    if (mesh.data.size > 1) {
      std::vector<at::Tensor> tensors = {whole};
      mesh.data.group->broadcast(tensors, c10d::BroadcastOptions{})->wait();
    }
    state.part = MakePart(unit.layout.part(), type);
    MapParts(state);
    state.part.copy_(unit.layout.OwnPart(whole));
  }
  unit.TakePieces(state.part);
  // A storage whose memory PointTo() sets and removes.
  unit.flat = at::empty({unit.layout.elements()}, type);
  unit.layout.MoveTo(unit.flat);
  PointTo(unit.flat, state.in_place);
}

void GatheredUnits::Rejoin() {
  for (State& state : states_) state.gather_work.reset();  // it was cancelled
  FreeAll();
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!units_[i].flat.defined()) continue;
    MapParts(states_[i]);
    PointTo(units_[i].flat, states_[i].in_place);
  }
}

void GatheredUnits::StartGather(size_t index) {
  State& state = states_[index];
  const ShardedUnit& unit = units_[index];
  if (state.buffer.defined() || !unit.flat.defined()) return;
  const at::NoGradGuard no_grad;
  state.buffer = buffers_.Take(unit.layout.elements(), unit.flat.options());
  state.gather_work =
      GatherParts(axis_, state.part, state.buffer.narrow(0, 0, unit.layout.elements()));
}

void GatheredUnits::Gather(size_t index) {
  StartGather(index);
  State& state = states_[index];
  if (state.is_gathered || !state.buffer.defined()) return;
  const Stopwatch stopwatch(exposed_seconds_);
  if (state.gather_work != nullptr) std::exchange(state.gather_work, nullptr)->wait();
  PointTo(units_[index].flat, state.buffer);
  state.is_gathered = true;
}

void GatheredUnits::Free(size_t index) {
  State& state = states_[index];
  if (!state.buffer.defined()) return;
  if (state.gather_work != nullptr) std::exchange(state.gather_work, nullptr)->wait();
  PointTo(units_[index].flat, state.in_place);
  state.is_gathered = false;
  buffers_.GiveBack(std::exchange(state.buffer, {}));
}

void GatheredUnits::FreeAll() {
  for (size_t unit = 0; unit < units_.size(); ++unit) Free(unit);
}

void GatheredUnits::GatherAll() {
  for (size_t unit = 0; unit < units_.size(); ++unit) Gather(unit);
}

// A barrier, so that all ranks have finished the last update before this rank reads their parts. No
// rank reads a part during the next update, because an update needs gradients of all ranks.
void GatheredUnits::Barrier() {
  if (axis_.size == 1) return;
  const Stopwatch stopwatch(exposed_seconds_);
  c10d::BarrierOptions options;
  options.asyncOp = false;
  axis_.group->barrier(options)->wait();
}

// Frees the units, because those of a forward without a backward may be older than the last update.
void GatheredUnits::BeforeForward() {
  FreeAll();
  if (in_place_) return Barrier();
  Gather(0);
}

void GatheredUnits::AfterForward() {
  FreeAll();
  if (in_place_) Barrier();  // an update may follow without a backward
}

at::Tensor GatheredUnits::Run(size_t block, const Forward& forward, const at::Tensor& x) {
  if (in_place_) return forward(x);
  const size_t unit = block + 1;
  const bool last = unit + 1 == units_.size();
  Gather(unit);
  if (!last) StartGather(unit + 1);
  const at::Tensor y = forward(x);
  const bool graph = at::GradMode::is_enabled() && y.requires_grad();
  // Keeps the last block, because backward begins with it.
  if (!last || !graph) Free(unit);
  if (graph) y.register_hook([this, unit](const at::Tensor&) { BeforeBackward(unit); });
  return y;
}

void GatheredUnits::BeforeBackward(size_t unit) {
  Gather(unit);
  if (unit > 1) StartGather(unit - 1);
}

}  // namespace ddprun::trainer
