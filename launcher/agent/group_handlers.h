// The objects that a worker group uses, and the handlers that it calls.
#pragma once

#include <functional>
#include <optional>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "launcher/agent/group_state.h"
#include "launcher/agent/loss_board.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/clock.h"
#include "launcher/process/process.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// The objects that the group uses. Everything here must outlive the group.
struct GroupSurroundings {
  asio::io_context& io;
  Clock& clock;
  ProcessHost& processes;
  Console& console;
  const Log& log;
  const GroupTable& table;
  WorkerReaders readers;
  OpenLossBoard open_losses = {};
};

struct GroupHandlers {
  // Called at most once, with the first worker that failed by itself and its last lines. The group
  // is stopping the other workers.
  std::function<void(const WorkerRecord&)> on_first_failure;
  // Called once, from the loop, when no worker is left.
  std::function<void()> on_done;
  // Calls `then`, now or later, with the spec of a process that replaces a worker that a signal has
  // ended; nullopt: it has failed. May be empty: every lost worker has failed.
  using Then = std::function<void(std::optional<WorkerSpec>)>;
  std::function<void(const WorkerRecord&, Then then)> find_replacement = {};
};

}  // namespace ddprun::launcher
