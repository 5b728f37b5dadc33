// A stream of bytes from one rank of a node to others.
#pragma once

#include <chrono>
#include <functional>

#include "base/result.h"
#include "trainer/comm/node_meeting.h"

namespace ddprun::trainer {

// Passes the next bytes of a stream. All ranks pass the same sizes in the same order.
using PassBytes = std::function<Status(void* data, size_t bytes)>;
using UseStream = std::function<Status(const PassBytes& pass)>;

// Streams bytes from `root` to the ranks that set `takes`, piece by piece. Calls `use` once, with a
// function `pass` that reads `data` at the root, writes it at ranks that take, and does nothing at
// other ranks. No rank waits for another one longer than `timeout`.
Status StreamOnNode(NodeMeeting& node,
                    int root,
                    bool takes,
                    std::chrono::milliseconds timeout,
                    const UseStream& use);

}  // namespace ddprun::trainer
