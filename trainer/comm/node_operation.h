// A running collective of a node's ranks, and its description for people.
#pragma once

#include <string>

#include <ddprun/error.h>
#include "base/flight_recorder.h"
#include "trainer/comm/control_block.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/recording.h"

namespace ddprun::trainer {

struct NodeOperation {
  OperationHeader header;
  Clock::time_point deadline;
  mutable Recording recording;  // mutable, because it only describes the operation

  DataType type() const { return static_cast<DataType>(header.type); }
  Reduction reduction() const { return static_cast<Reduction>(header.reduction); }
  void SetReduction(DataType type, Reduction reduction) {
    header.type = static_cast<uint32_t>(type);
    header.reduction = static_cast<uint32_t>(reduction);
  }
};

// Returns whether two ranks do the same operation. Ignores where each rank's data lies.
bool SameOperation(const OperationHeader& a, const OperationHeader& b);

// Returns "all_reduce number 3 (sum of 10 float32)".
std::string Describe(const OperationHeader& header);

// Returns the error of an all_to_all in which `sender` sends `rank` `sent` bytes, but `rank`
// expects `expected`.
Error WrongSizes(int rank, int sender, size_t expected, size_t sent);

// Returns the flight recorder's entry. `group` is Collective::group.
Collective ForRecorder(const OperationHeader& header, uint16_t group);

}  // namespace ddprun::trainer
