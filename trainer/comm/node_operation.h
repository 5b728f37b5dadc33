// One collective of a node's ranks while it runs, and how it is told to people.
#pragma once

#include <string>

#include "base/error.h"
#include "base/flight_recorder.h"
#include "trainer/comm/control_block.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/recording.h"

namespace ddprun::trainer {

struct NodeOperation {
  OperationHeader header;
  Clock::time_point deadline;
  mutable Recording recording;  // not what the operation is, but what is said of it

  DataType type() const { return static_cast<DataType>(header.type); }
  Reduction reduction() const { return static_cast<Reduction>(header.reduction); }
};

// Whether two ranks are at the same operation; where its data lies is each rank's own affair.
bool SameOperation(const OperationHeader& a, const OperationHeader& b);

// "all_reduce number 3 (sum of 10 float32)".
std::string Describe(const OperationHeader& header);

// `sender` gives `rank` another number of bytes in an all_to_all than that one expects.
Error WrongSizes(int rank, int sender, size_t expected, size_t sent);

// `group`: as Collective::group.
Collective ForRecorder(const OperationHeader& header, uint16_t group);

}  // namespace ddprun::trainer
