// The command line: torchrun's names, in both spellings, with PET_* variables as defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::launcher {

struct Options {
  std::string nproc_per_node = "1";  // a number, "auto", "cpu" or "gpu": see device_count.h
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";  // host name or address of node 0
  std::optional<uint16_t> master_port;    // unset: chosen (one node) or 29500 (several)
  bool standalone = false;                // one node, whatever nnodes and master_* say
  bool module = false;                    // -m: target is a Python module
  bool no_python = false;                 // target is run as it is
  std::chrono::milliseconds shutdown_timeout{30'000};  // SIGTERM to SIGKILL, as torchrun's 30 s
  std::string target;
  std::vector<std::string> target_args;
};

// --help and --version: print this on stdout and exit 0.
struct TextToPrint {
  std::string text;
};

// `args` without the program's own name. Everything after the target belongs to the target.
// Errors are kUsage and name the flag or variable, what was found and what is accepted.
Result<std::variant<Options, TextToPrint>> ParseOptions(const std::vector<std::string>& args,
                                                        const Environment& env);

}  // namespace ddprun::launcher
