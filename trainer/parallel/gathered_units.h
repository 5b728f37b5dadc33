// Parameters of which each rank keeps a part; a whole unit is in memory only while it is used.
//
// Unit 0 holds the parameters of no block or of several blocks: it is gathered before forward and
// freed when backward has finished with it. A block is gathered before its forward and again before
// its backward, while its neighbour runs, and freed after each. Parameters keep their sizes; while
// their unit is freed, they have no memory.
//
// If all ranks are on one node and on the CPU, nothing is gathered: each rank reads the others'
// parts in place, and ranks only wait for each other before forward. Parameters are then read-only.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "trainer/parallel/flat_buffers.h"
#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

// One thread, which is also autograd's. All ranks call the same methods in one order.
class GatheredUnits {
 public:
  // `blocks`: indices in `parameters`, in the order of forward. Takes the values of rank 0 of the
  // data axis. A rank never holds other ranks' parts of more than one unit. A collective, unless
  // `rejoins`: then the values are zeros, and Rejoin() follows.
  GatheredUnits(std::span<const NamedParameter> parameters,
                const std::vector<std::vector<size_t>>& blocks,
                const Mesh& mesh,
                bool rejoins = false);
  // Leaves the parameters without memory.
  ~GatheredUnits();
  GatheredUnits(const GatheredUnits&) = delete;
  GatheredUnits& operator=(const GatheredUnits&) = delete;

  std::vector<ShardedUnit>& units() { return units_; }
  const std::vector<ShardedUnit>& units() const { return units_; }

  // Forgets the gathers of a failed step, and finds the parts of ranks that were replaced. A
  // collective. Throws Failure.
  void Rejoin();

  // Both are collectives and throw Failure.
  void BeforeForward();
  void AfterForward();  // only without gradients; else Free() frees the units
  // Calls forward(x) of a block, counted from 0, with its parameters gathered, then frees them.
  using Forward = std::function<at::Tensor(const at::Tensor& x)>;
  at::Tensor Run(size_t block, const Forward& forward, const at::Tensor& x);
  // Frees a unit when backward has computed all of its gradients. No collective.
  void Free(size_t unit);
  void FreeAll();
  // Gathers copies of all units, until FreeAll().
  void GatherAll();

  double exposed_seconds() const { return exposed_seconds_; }  // so far

 private:
  struct State {
    at::Tensor buffer = {};  // undefined: the unit is freed
    c10::intrusive_ptr<c10d::Work> gather_work = {};
    at::Tensor part = {};      // this rank's part
    at::Tensor in_place = {};  // all ranks' parts, if they are read in place
    bool is_gathered = false;
  };

  void ShardUnit(ShardedUnit& unit, const Mesh& mesh, bool rejoins);
  at::Tensor MakePart(int64_t elements, const at::TensorOptions& type);
  void MapParts(State& state) const;
  void Barrier();
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
