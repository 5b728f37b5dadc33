// Messages between the stages of a pipeline.
#pragma once

#include <ATen/core/Tensor.h>

#include <ddprun/mesh.h>

namespace ddprun::trainer {

// Exchanges messages with the ranks that have this rank's place on the other axes. Messages go over
// the control group, through the host's memory, so that a send never waits, in whatever order
// stages send and receive, and an error names the stage's rank in the job. One thread. Throws
// Failure.
class PipelinePeers {
 public:
  explicit PipelinePeers(const Mesh& mesh) : mesh_(mesh) {}

  // Sends x with its shape to the next stage; ReceiveForward() receives it from the stage before.
  void SendForward(const at::Tensor& x) const;
  at::Tensor ReceiveForward();
  // Send and receive a tensor whose shape both stages know.
  void Send(const at::Tensor& gradient, int stage) const;
  at::Tensor Receive(const at::Tensor& like, int stage);
  // Returns the seconds spent in Receive() and ReceiveForward() since the last call.
  double TakeWaitedSeconds();

 private:
  int WorldRank(int stage) const {
    return mesh_.world.rank + (stage - mesh_.pipeline.rank) * mesh_.data.size * mesh_.tensor.size;
  }

  const Mesh mesh_;
  double waited_seconds_ = 0;
};

}  // namespace ddprun::trainer
