// What a worker group uses, and the handlers that it calls.
#pragma once

#include <functional>
#include <optional>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "launcher/agent/group_state.h"
#include "launcher/agent/template_client.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/clock.h"
#include "launcher/process/process.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// What the group uses. Everything here must outlive the group.
struct GroupSurroundings {
  asio::io_context& io;
  Clock& clock;
  ProcessHost& processes;
  Console& console;
  const Log& log;
  const GroupTable& table;
  CpuTimesReader cpu_times;
};

// How to make a process that replaces a lost worker: the template forks it with this environment.
struct Replacement {
  TemplateClient* worker_template;
  EnvironmentChange env;
};

// Returns the replacement of a worker that a signal has ended; nullopt means that the worker has
// failed.
using ReplacementOf = std::function<std::optional<Replacement>(const WorkerRecord&)>;

struct GroupHandlers {
  // Called at most once, with the first worker that failed by itself and its last lines. The group
  // is stopping the other workers.
  std::function<void(const WorkerRecord&)> on_first_failure;
  // Called once, from the loop, when no worker is left.
  std::function<void()> on_done;
};

}  // namespace ddprun::launcher
