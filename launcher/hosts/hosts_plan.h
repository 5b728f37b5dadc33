// The processes that --hostfile starts: the command and the orders for each host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

struct Host {
  std::string name;  // as ssh takes it: HOST or USER@HOST
  int slots = 0;     // workers; 0 means that the file does not say it

  std::string address() const { return name.substr(name.find('@') + 1); }
};

// Reads lines "HOST [slots=N]", with # before comments. A host in several lines gets the slots of
// all of them, and a line without slots then counts for one. `where` is the file, for messages.
// Error: kUsage.
Result<std::vector<Host>> ParseHostFile(std::string_view text, const std::string& where);

struct HostStart {
  Host host;
  std::vector<std::string> command;  // runs RunOnHost(); its first word is a path
  std::string orders;                // for RunOnHost()
};

struct HostsPlan {
  std::vector<HostStart> starts;
  Options options;  // of the first host's agent
};

// Reads `file` and checks `args`, the words of the command line. `ssh_command` reaches a host; it
// gets the host and a command behind it. Error: kUsage, or kNotFound.
Result<HostsPlan> MakeHostsPlan(const std::string& file,
                                const std::string& ssh_command,
                                const std::vector<std::string>& args,
                                const Environment& env);

}  // namespace ddprun::launcher
