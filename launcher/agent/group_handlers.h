// What a worker group uses, and whom it tells.
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

// What the group uses; everything outlives it.
struct GroupSurroundings {
  asio::io_context& io;
  Clock& clock;
  ProcessHost& processes;
  Console& console;
  const Log& log;
  const GroupTable& table;
  CpuTimesReader cpu_times;
};

// Where another process in a worker's place comes from.
struct Replacement {
  TemplateClient* worker_template;
  EnvironmentChange env;
};

// For a worker that a signal has ended by itself: nullopt where that is a failure.
using ReplacementOf = std::function<std::optional<Replacement>(const WorkerRecord&)>;

struct GroupHandlers {
  // The first worker that failed by itself, with its last lines; the others are being stopped. At
  // most once.
  std::function<void(const WorkerRecord&)> on_first_failure;
  // No worker is left. Once, from the loop.
  std::function<void()> on_done;
};

}  // namespace ddprun::launcher
