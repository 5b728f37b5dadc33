// The neighbours of a stage of a pipeline.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include <ddprun/mesh.h>
#include "trainer/strategies/stage_messages.h"

namespace ddprun::trainer {

// Exchanges tensors with the ranks that have this rank's place on the other axes: between devices
// if the pipeline axis has groups for that, else through the host's memory. Shapes always go
// through the host's memory. The constructor is a collective of the pipeline axis. One thread.
// Throws Failure.
class PipelinePeers {
 public:
  explicit PipelinePeers(const Mesh& mesh);

  // Sends x with its shape to the next stage; ReceiveForward() receives it from the stage before.
  void SendForward(const at::Tensor& x) const;
  at::Tensor ReceiveForward();
  // Send and receive a tensor whose shape both stages know.
  void Send(const at::Tensor& gradient, int stage) const { tensors().Send(gradient, stage); }
  at::Tensor Receive(const at::Tensor& like, int stage);
  void WaitForSends() const { tensors().WaitForSends(); }
  // Returns the seconds that the host spent in Receive() and ReceiveForward() since the last call;
  // < 0 means unknown, because a device waits and not the host.
  double TakeWaitedSeconds();

 private:
  StageMessages& tensors() const { return devices_ ? *devices_ : *host_; }

  const Mesh mesh_;
  const std::unique_ptr<StageMessages> host_;
  const std::unique_ptr<StageMessages> devices_;  // nullptr: through the host's memory
  double waited_seconds_ = 0;
};

}  // namespace ddprun::trainer
