// The destinations of the output of a node's workers, which the agent takes from the options.
#pragma once

#include <string>
#include <vector>

namespace ddprun::launcher {

enum class Route {
  kInherit,   // the worker writes to ddprun's own stream
  kFile,      // the worker writes to the file; nothing is shown
  kPipe,      // ddprun reads a pipe
  kTerminal,  // ddprun reads a terminal
};

struct StreamPlan {
  Route route = Route::kPipe;
  std::string file = {};   // the worker's (kFile), or one for ddprun's copy; "" means none
  bool shown = true;       // on ddprun's own stream
  std::string label = {};  // before each line that is shown
  bool filtered = false;   // its lines may go to the filtered log
};

struct WorkerOutputPlan {
  StreamPlan out;
  StreamPlan err;
};

// A log of the lines of all workers that contain one of the needles.
struct FilteredLogPlan {
  std::string file = {};  // "" means none
  std::vector<std::string> needles = {};
};

struct GroupOutputPlan {
  std::vector<WorkerOutputPlan> workers;  // by local rank
  FilteredLogPlan filtered_out = {};
  FilteredLogPlan filtered_err = {};
};

}  // namespace ddprun::launcher
