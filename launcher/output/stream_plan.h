// What happens to the output of a node's workers: plain values, made by the agent from the options.
#pragma once

#include <string>
#include <vector>

namespace ddprun::launcher {

enum class Route {
  kInherit,   // the worker has our own stream
  kFile,      // the worker writes the file itself; nothing is shown
  kPipe,      // to us
  kTerminal,  // to us, and a terminal for the worker
};

struct StreamPlan {
  Route route = Route::kPipe;
  std::string file = {};   // kFile: the worker's; kPipe: gets a copy from us; empty: none
  bool shown = true;       // on our own stream
  std::string label = {};  // in front of each line shown
  bool filtered = false;   // its lines are looked at for the filtered log
};

struct WorkerOutputPlan {
  StreamPlan out;
  StreamPlan err;
};

// Lines of all workers that contain one of the needles.
struct FilteredLogPlan {
  std::string file = {};  // empty: none
  std::vector<std::string> needles = {};
};

struct GroupOutputPlan {
  std::vector<WorkerOutputPlan> workers;  // by local rank
  FilteredLogPlan filtered_out = {};
  FilteredLogPlan filtered_err = {};
};

}  // namespace ddprun::launcher
