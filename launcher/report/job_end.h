// How a job ended on this node, as text for standard error.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/report/failure_report.h"
#include "launcher/report/worker_record.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

struct JobEnd {
  std::string program;
  std::string host;
  std::vector<WorkerRecord> workers = {};
  std::optional<size_t> first_failure = {};  // index into workers
  std::chrono::system_clock::time_point failure_time = {};
  std::optional<Error> error;  // the launcher's own
  std::optional<rendezvous::RoundEnd> peer_failure;
  std::optional<int> stop_signal;
  std::vector<pid_t> unkillable;
};

// Empty when all went well. What came first stands first.
std::string RenderJobEnd(const JobEnd& end, const TextStyle& style);
inline std::string RenderJobEnd(const JobEnd& end, bool color) {
  return RenderJobEnd(end, TextStyle{.color = color});
}

}  // namespace ddprun::launcher
