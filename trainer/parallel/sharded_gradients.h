// Averages gradients over the ranks while backward runs. Each rank keeps its part of the averages.
//
// When all gradients of a unit have come, they are copied into a bucket in the group's memory and
// dropped. The bucket is reduce-scattered in the background, and this rank's part is added to the
// sum of earlier micro-batches. At most two buckets are in use; later units reuse them.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "trainer/compute/device.h"
#include "trainer/parallel/flat_buffers.h"
#include "trainer/parallel/gradient_hooks.h"
#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

// One thread, which is also autograd's, so all parameters are on the CPU or on one device. All
// ranks must have equal units and graphs.
class ShardedGradients {
 public:
  struct Options {
    // Called with the index of a unit when all of its gradients have come.
    std::function<void(size_t unit)> on_complete = {};
    // Returns whether Norm() counts this rank's part of the parameter; false means that another
    // rank counts equal values.
    std::function<bool(const std::string& parameter)> adds_to_sums = {};
    bool check_finite = false;           // throw at the first gradient that is not finite
    FlightRecorder* recorder = nullptr;  // records which unit is sent; outlives this object
  };
  // Later backwards set the gradients of the units' pieces. `table`: the parameters of all units,
  // in the order of the model.
  ShardedGradients(std::span<ShardedUnit> units,
                   std::span<const NamedParameter> table,
                   const Mesh& mesh,
                   const Options& options);

  // Forgets the gradients.
  void BeginStep();
  // Frees what a failed backward was sending. REQUIRES: no other rank reads it now.
  void Rejoin();
  // Call it before every backward, which then adds the average over the shard axis. With
  // `synchronize`, gradients are afterwards the averages over all ranks. backward() throws Failure
  // if a collective fails or a parameter gets no gradient.
  void PrepareBackward(bool synchronize);

  // Returns the gradients of the pieces, in the order of the units and their parameters.
  std::vector<at::Tensor> Gradients() const;
  // Returns the 2-norm of all ranks' gradients. It has the bits that one process with all gradients
  // computes. A collective.
  DeviceScalar Norm() const;
  // Returns the memory of all gradients, one tensor per unit.
  std::vector<at::Tensor> FlatGradients() const;

  double exposed_seconds() const { return exposed_seconds_; }  // of the last step

 private:
  struct Unit {
    ShardedUnit* unit;
    size_t index;                         // in the constructor's `units`
    at::Tensor sum;                       // this rank's part
    bool begun = false;                   // `sum` has gradients of this step
    size_t missing = 0;                   // gradients that this backward has not produced yet
    std::vector<int64_t> blocks = {};     // by parameter: first block of its piece
    std::vector<bool> adds_to_sums = {};  // by parameter
  };
  struct Flight {
    Unit* unit;
    at::Tensor bucket;
    at::Tensor part;  // receives this rank's part: `sum` for the first micro-batch
    c10::intrusive_ptr<c10d::Work> work;
  };

  void OnGradient(size_t unit, size_t parameter);
  void OnBackwardEnd();
  void LaunchComplete();
  void Launch(Unit& unit);
  void FinishFirstFlight();
  at::Tensor OwnSquares() const;
  std::string Where() const;
  [[noreturn]] void ThrowMissingGradients() const;

  const Mesh mesh_;
  const Options options_;
  std::vector<Unit> units_;
  int64_t blocks_ = 0;     // for norms, of all parameters
  at::Tensor own_blocks_;  // numbers of this rank's blocks, on the device
  at::Tensor own_counts_;  // by own block; 0: another tensor rank counts it
  FlatBuffers buckets_;
  FlatBuffers parts_;
  std::deque<Flight> flights_;
  std::vector<c10::intrusive_ptr<c10d::Work>> of_replicas_;
  size_t to_launch_ = 0;  // units not sent yet; the last of them is next
  bool synchronize_ = true;
  bool expected_ = false;
  bool end_queued_ = false;
  int64_t backwards_ = 0;
  double exposed_seconds_ = 0;
  GradientHooks hooks_;  // the last member, so that hooks are removed first
};

}  // namespace ddprun::trainer
