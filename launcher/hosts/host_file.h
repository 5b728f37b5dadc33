// Reads lists of hosts in the form of Open MPI and DeepSpeed. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct Host {
  std::string name;  // as ssh takes it: HOST or USER@HOST
  int slots = 0;     // workers; 0 means that the file does not say it

  // Returns the name without the user.
  std::string address() const { return name.substr(name.find('@') + 1); }
};

// Reads lines "HOST [slots=N]", with # before comments. A host in several lines gets the slots of
// all of them, and a line without slots then counts for one. `where` is the file, for messages.
// Error: kUsage.
Result<std::vector<Host>> ParseHostFile(std::string_view text, const std::string& where);

}  // namespace ddprun::launcher
