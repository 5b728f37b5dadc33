// Averages gradients over the ranks while backward goes on, each rank keeping its part only.
//
// When all gradients of a unit have come they are copied into a bucket in the group's memory and
// dropped; the bucket is reduce-scattered in the background and its own part added to what the
// micro-batches before have left. Two buckets at most are on their way; then they are used again.
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

// One thread, which is autograd's, too: parameters of the CPU or of one device. All ranks must have
// the same units and graphs.
class ShardedGradients {
 public:
  struct Options {
    // Of a unit, by index, whose gradients have all come.
    std::function<void(size_t unit)> on_complete = {};
    // Whether Norm() counts this rank's part of it; else another one counts the same.
    std::function<bool(const std::string& parameter)> counts = {};
    bool check_finite = false;  // look at every gradient and throw at the first that is not
    FlightRecorder* recorder = nullptr;  // is told which unit is sent; outlives this
  };
  // Sets the gradients of the units' pieces. `table`: all of their parameters, in the order of the
  // model.
  ShardedGradients(std::span<ShardedUnit> units,
                   std::span<const NamedParameter> table,
                   const Mesh& mesh,
                   const Options& options);

  // Forgets the gradients.
  void BeginStep();
  // Before every backward. When it returns, the average over the shard axis is added; with
  // `synchronize` gradients are then those of all ranks. backward() throws Failure when a
  // collective fails and when a parameter got no gradient.
  void PrepareBackward(bool synchronize);

  // Of the pieces, in the order of the units and their parameters.
  std::vector<at::Tensor> Gradients() const;
  // Of all ranks' gradients: the bits that a process has that holds them all. A collective.
  DeviceScalar Norm() const;
  // Memory of all of them.
  std::vector<at::Tensor> FlatGradients() const;

  double exposed_seconds() const { return exposed_seconds_; }  // of the last step

 private:
  struct Unit {
    ShardedUnit* unit;
    size_t index;                      // of those given
    at::Tensor sum;                    // the own part
    bool begun = false;                // sum has something of this step
    size_t missing = 0;                // gradients that this backward has still to bring
    std::vector<int64_t> blocks = {};  // by parameter: those of the table before its own ones
    std::vector<bool> counts = {};     // by parameter
  };
  struct Flight {
    Unit* unit;
    at::Tensor bucket;
    at::Tensor part;  // where its own part goes: the sum, where it is the first
    c10::intrusive_ptr<c10d::Work> work;
  };

  void OnGradient(size_t unit, size_t parameter);
  void OnBackwardEnd();
  void LaunchComplete();
  void Launch(Unit& unit);
  void SettleFirst();
  at::Tensor OwnSquares() const;
  std::string Where() const;
  [[noreturn]] void ThrowMissingGradients() const;

  const Mesh mesh_;
  const Options options_;
  std::vector<Unit> units_;
  int64_t blocks_ = 0;     // for norms, of all parameters
  at::Tensor own_blocks_;  // numbers of those that this rank has, on the device
  at::Tensor own_counts_;  // 0 for those that another tensor rank counts
  FlatBuffers buckets_;
  FlatBuffers parts_;
  std::deque<Flight> flights_;
  std::vector<c10::intrusive_ptr<c10d::Work>> of_replicas_;
  size_t to_launch_ = 0;  // units that have not been sent; the last of them is next
  bool synchronize_ = true;
  bool expected_ = false;
  bool end_queued_ = false;
  int64_t backwards_ = 0;
  double exposed_seconds_ = 0;
  GradientHooks hooks_;  // the first to go
};

}  // namespace ddprun::trainer
