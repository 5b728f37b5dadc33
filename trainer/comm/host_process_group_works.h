// The running collectives and messages of a HostProcessGroup, as Work objects. Internal to
// HostProcessGroup.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "trainer/comm/operation_queue.h"

namespace ddprun::trainer {

struct HostProcessGroupCore;

// Runs a collective, in the background if `async`. `outputs`: the tensors that it writes, for the
// Work's future. `group`: the group's description in errors; "" means none. Throws Failure.
c10::intrusive_ptr<c10d::Work> StartCollective(const std::shared_ptr<HostProcessGroupCore>& core,
                                               const std::string& group,
                                               c10d::OpType type,
                                               bool async,
                                               std::vector<at::Tensor> outputs,
                                               OperationQueue::Function run);

// Begins to send the only tensor of `tensors` to `peer`, or to receive it. Throws Failure.
c10::intrusive_ptr<c10d::Work> StartMessage(std::shared_ptr<HostProcessGroupCore> core,
                                            c10d::OpType type,
                                            const std::vector<at::Tensor>& tensors,
                                            int peer,
                                            int tag);

}  // namespace ddprun::trainer
