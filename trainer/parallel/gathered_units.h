// Parameters of which each rank keeps a part: whole units of them are there only while they are
// used.
//
// Unit 0 holds what belongs to no block, or to several: it is gathered before forward and freed
// when backward is through with it. A block is gathered before its forward and again before its
// backward, the next one meanwhile, and freed after each. Parameters keep their sizes; without
// their unit they have no memory.
//
// Where the ranks are on one node nothing is gathered: all of them read each one's part where it
// is, and only wait for each other before forward. Parameters are then never to be written to.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "trainer/parallel/flat_buffers.h"
#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

// One thread, which is autograd's, too. All ranks do the same in the same order.
class GatheredUnits {
 public:
  // `blocks`: indices in `parameters`, in the order of forward. The values are those of the data
  // axis' rank 0, and no rank ever has more of the others' than a unit. A collective.
  GatheredUnits(std::span<const NamedParameter> parameters,
                const std::vector<std::vector<size_t>>& blocks,
                const Mesh& mesh);
  // Leaves the parameters without memory.
  ~GatheredUnits();
  GatheredUnits(const GatheredUnits&) = delete;
  GatheredUnits& operator=(const GatheredUnits&) = delete;

  std::vector<ShardedUnit>& units() { return units_; }
  const std::vector<ShardedUnit>& units() const { return units_; }

  // Collectives; they throw Failure.
  void BeforeForward();
  void AfterForward();  // without gradients; else the units are freed by Free()
  // forward(x) of a block, counted from 0, and what belongs before and after it.
  using Forward = std::function<at::Tensor(const at::Tensor& x)>;
  at::Tensor Run(size_t block, const Forward& forward, const at::Tensor& x);
  // Backward has all gradients of the unit: nothing will use it. No collective.
  void Free(size_t unit);
  void FreeAll();
  // Copies of all units are there until FreeAll().
  void GatherAll();

  double exposed_seconds() const { return exposed_seconds_; }  // so far

 private:
  struct State {
    at::Tensor buffer = {};  // undefined: the unit is not there
    c10::intrusive_ptr<c10d::Work> coming = {};
    at::Tensor part = {};      // what this rank keeps
    at::Tensor in_place = {};  // all ranks' parts, where they are on one node
    bool there = false;
  };

  void HandOut(ShardedUnit& unit, const Mesh& mesh);
  void MakePart(State& state, int64_t elements, const at::TensorOptions& type) const;
  void Meet();
  void StartGather(size_t unit);
  void Gather(size_t unit);
  void BeforeBackward(size_t unit);

  const Axis axis_;
  std::vector<ShardedUnit> units_;
  std::vector<State> states_;  // by unit
  FlatBuffers buffers_;
  bool in_place_ = false;
  double exposed_seconds_ = 0;
};

}  // namespace ddprun::trainer
