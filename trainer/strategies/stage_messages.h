// Messages between the stages of a pipeline, which are ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include <ddprun/mesh.h>

namespace ddprun::trainer {

// Messages from one stage to another arrive in their order. A send does not wait for its receiver,
// in whatever order stages send and receive. One thread.
class StageMessages {
 public:
  virtual ~StageMessages() = default;
  // Nobody may write to the tensor before WaitForSends(), but the caller need not keep it.
  virtual void Send(const at::Tensor& tensor, int stage) = 0;
  // Both stages know the shape and the type.
  virtual at::Tensor Receive(at::IntArrayRef sizes,
                             const at::TensorOptions& options,
                             int stage) = 0;
  // Makes the current stream wait until all tensors are sent. Called at the end of a step.
  virtual void WaitForSends() {}
};

// Over the control group, through the host's memory. An error names the stage's rank in the job.
std::unique_ptr<StageMessages> MakeHostMessages(const Mesh& mesh);

// Over the groups of mesh.later and mesh.earlier. The host does not wait: Receive() makes the
// current stream wait. A collective of the pipeline axis. Throws what the groups throw.
std::unique_ptr<StageMessages> MakeDeviceMessages(const Mesh& mesh);

}  // namespace ddprun::trainer
