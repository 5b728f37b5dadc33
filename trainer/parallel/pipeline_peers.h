// The ranks with the other stages of a pipeline.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/parallel/mesh.h"

namespace ddprun::trainer {

// Messages to and from the ranks with the same place on the other axes. They go over the control
// group, through the host's memory: there a send waits for nobody, whatever the order in which the
// stages come to theirs, and a wait for a stage names its rank in the job. One thread; throws
// Failure.
class PipelinePeers {
 public:
  explicit PipelinePeers(const Mesh& mesh) : mesh_(mesh) {}

  // To the stage after this one, which cannot know the shape; from the one before.
  void SendForward(const at::Tensor& x) const;
  at::Tensor ReceiveForward();
  // What both sides know the shape of.
  void Send(const at::Tensor& gradient, int stage) const;
  at::Tensor Receive(const at::Tensor& like, int stage);
  // In Receive and ReceiveForward, since the last call.
  double TakeWaitedSeconds();

 private:
  int WorldRank(int stage) const {
    return mesh_.world.rank + (stage - mesh_.pipeline.rank) * mesh_.data.size * mesh_.tensor.size;
  }

  const Mesh mesh_;
  double waited_seconds_ = 0;
};

}  // namespace ddprun::trainer
