#include "trainer/parallel/sharded_update.h"

#include <ATen/ops/zeros.h>

#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

ShardedUpdate::ShardedUpdate(std::span<const NamedParameter> parameters,
                             const Axis& axis,
                             int64_t bytes)
    : axis_(axis) {
  for (std::vector<NamedParameter>& members : UnitsOf(parameters, bytes)) {
    ShardedUnit unit{.layout = UnitLayout(std::move(members), axis.rank, axis.size)};
    const auto type = unit.layout.parameters()[0].tensor.options().requires_grad(false);
    unit.flat = FlatOn(axis, unit.layout.elements(), type);
    unit.layout.MoveTo(unit.flat);
    unit.TakePieces(unit.layout.OwnPart(unit.flat));
    units_.push_back(std::move(unit));
  }
}

void ShardedUpdate::TakeGradients() const {
  for (const ShardedUnit& unit : units_) {
    for (size_t i = 0; i < unit.pieces.size(); ++i) {
      const at::Tensor& gradient = unit.layout.parameters()[i].tensor.grad();
      unit.pieces[i].mutable_grad() =
          gradient.defined() ? unit.layout.PieceOfWhole(gradient, i) : at::Tensor();
    }
  }
}

void ShardedUpdate::Step(const Update& update) {
  std::vector<c10::intrusive_ptr<c10d::Work>> under_way;
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    update(unit->pieces);
    under_way.push_back(GatherParts(axis_, unit->layout.OwnPart(unit->flat), unit->flat));
  }
  exposed_seconds_ = 0;
  const Stopwatch stopwatch(exposed_seconds_);
  for (const auto& work : under_way) {
    if (work != nullptr) work->wait();
  }
}

}  // namespace ddprun::trainer
