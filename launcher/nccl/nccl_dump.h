// A rank's dump of PyTorch's own flight recorder: the last collectives that its NCCL groups began.
// ProcessGroupNCCL writes it to a file when a collective times out or when it is asked to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct NcclGroup {
  std::string name;              // "0"; the same on all its ranks
  std::string description = {};  // "default_pg"; "" means that the user gave none
  std::vector<int> ranks = {};   // global, sorted
};

struct NcclCall {
  std::string group = {};      // NcclGroup::name
  int64_t number = 0;          // counts the group's collectives, or its messages, from 1
  std::string operation = {};  // "all_reduce"
  std::string input = {};      // "[1024] of Float"; "" means no tensor
  int64_t elements = 0;        // of all inputs
  bool is_message = false;     // between two ranks: a send or a receive
  bool is_complete = false;
  std::string caller = {};  // "step at train.py:8, from <module> at train.py:14"; "": unknown
};

struct NcclDump {
  int rank = 0;  // global
  std::vector<NcclGroup> groups = {};
  std::vector<NcclCall> calls = {};  // oldest first
};

// Throws nothing; the texts of the result have no control characters. An error has only `what`.
Result<NcclDump> ParseNcclDump(std::string_view bytes, int rank);

// Return the paths for TORCH_NCCL_DEBUG_INFO_TEMP_FILE and TORCH_NCCL_DEBUG_INFO_PIPE_FILE, to
// which PyTorch appends the rank, and ".pipe".
std::string NcclDumpPrefix(const std::string& folder);
std::string NcclPipePrefix(const std::string& folder);

struct NcclDumps {
  std::vector<NcclDump> dumps = {};      // by rank
  std::vector<std::string> unread = {};  // a line for each file that is there and is no dump
};

// Reads the dumps that are there.
NcclDumps ReadNcclDumps(const std::string& folder);

// Asks ranks for their dumps, which they write within some seconds if one of their threads still
// can. Returns those that have a pipe; the others do not use NCCL. Waits for nothing.
std::vector<int> AskForNcclDumps(const std::string& folder, const std::vector<int>& ranks);

}  // namespace ddprun::launcher
