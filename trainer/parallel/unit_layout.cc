#include "trainer/parallel/unit_layout.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "trainer/compute/norm.h"
#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

UnitLayout::UnitLayout(std::vector<NamedParameter> parameters, int rank, int ranks)
    : parameters_(std::move(parameters)), rank_(rank), ranks_(ranks) {
  int64_t blocks = 0;
  for (const NamedParameter& parameter : parameters_) {
    ranges_.push_back({.flat = blocks * kNormBlock});
    blocks += NormBlocksOf(parameter.tensor.numel());
  }
  part_ = (blocks + ranks_ - 1) / ranks_ * kNormBlock;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    Range& range = ranges_[i];
    const int64_t size = parameters_[i].tensor.numel();
    range.begin = std::clamp<int64_t>(rank_ * part_ - range.flat, 0, size);
    range.length = std::clamp<int64_t>((rank_ + 1) * part_ - range.flat, 0, size) - range.begin;
  }
}

at::Tensor UnitLayout::Whole(const at::Tensor& flat, size_t parameter) const {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  return flat.narrow(0, ranges_[parameter].flat, tensor.numel()).view(tensor.sizes());
}

at::Tensor UnitLayout::Piece(const at::Tensor& part, size_t parameter) const {
  const Range& range = ranges_[parameter];
  const int64_t first = range.flat + range.begin - rank_ * part_;
  return PartOf(part, range.length == 0 ? 0 : first, {range.length});
}

at::Tensor UnitLayout::PieceOfWhole(const at::Tensor& tensor, size_t parameter) const {
  const Range& range = ranges_[parameter];
  return tensor.view({-1}).narrow(0, range.begin, range.length);
}

StatePlacement UnitLayout::PlacementOf(size_t parameter) const {
  return {{.slice = {.global_shape = parameters_[parameter].tensor.sizes().vec(),
                     .offset = {ranges_[parameter].begin},
                     .flat = true}}};
}

void UnitLayout::MoveTo(const at::Tensor& flat) const {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor place = Whole(flat, i);
    place.copy_(parameters_[i].tensor);
    parameters_[i].tensor.set_data(place);
  }
}

void ShardedUnit::TakePieces(const at::Tensor& part) {
  for (size_t i = 0; i < layout.parameters().size(); ++i) pieces.push_back(layout.Piece(part, i));
}

std::vector<Shard> ShardsOf(std::span<const ShardedUnit> units) {
  std::vector<Shard> shards;
  for (const ShardedUnit& unit : units) {
    for (size_t i = 0; i < unit.pieces.size(); ++i) {
      shards.push_back(
          {unit.layout.parameters()[i].name, unit.pieces[i], unit.layout.PlacementOf(i)});
    }
  }
  return shards;
}

std::vector<std::vector<NamedParameter>> UnitsOf(std::span<const NamedParameter> parameters,
                                                 int64_t bytes) {
  std::vector<std::vector<NamedParameter>> units;
  int64_t room = 0;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const bool alike =
        !units.empty() && units.back().back().tensor.scalar_type() == tensor.scalar_type();
    if (room <= 0 || !alike) {
      units.emplace_back();
      room = bytes;
    }
    units.back().push_back(parameter);
    room -= static_cast<int64_t>(tensor.nbytes());
  }
  return units;
}

at::Tensor FlatOn(const Axis& axis, int64_t elements, const at::TensorOptions& options) {
  return axis.size > 1 ? MakeFlat(*axis.group, elements, options) : at::zeros({elements}, options);
}

c10::intrusive_ptr<c10d::Work> GatherParts(const Axis& axis,
                                           const at::Tensor& own,
                                           const at::Tensor& flat) {
  if (axis.size == 1) {
    if (!flat.is_alias_of(own)) flat.copy_(own);
    return nullptr;
  }
  at::Tensor output = flat;
  at::Tensor input = own;
  return axis.group->_allgather_base(output, input, c10d::AllgatherOptions{});
}

}  // namespace ddprun::trainer
