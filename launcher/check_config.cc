#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/unique_fd.h"
#include "launcher/commands.h"
#include "launcher/process/program_output.h"
#include "launcher/sweep/child_runs.h"
#include "launcher/sweep/sweep_plan.h"

namespace ddprun::launcher {

namespace {

// Returns an unnamed file with this text, to be read from its beginning.
Result<UniqueFd> FileWith(const std::string& text) {
  UniqueFd file(::memfd_create("ddprun-runs", MFD_CLOEXEC));
  if (!file.valid()) return SystemError("making a file in memory", errno);
  const int error = WriteBytes(file.get(), text);
  if (error != 0) return SystemError("writing a file in memory", error);
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

Result<int> CheckConfig(const Options& options,
                        const Target& target,
                        int workers,
                        const std::vector<SweepRun>& runs) {
  std::vector<std::string> words = target.argv;
  words.insert(words.begin() + 1, "check");
  words.push_back("--nproc_per_node=" + std::to_string(workers));
  words.push_back("--nnodes=" + std::to_string(options.rdzv.rules.max_nodes));
  nlohmann::json list = nlohmann::json::array();
  for (const SweepRun& run : runs) list.push_back(run.Overrides());
  if (!runs.empty()) words.push_back("--runs=/dev/stdin");
  DDPRUN_ASSIGN(const UniqueFd input,
                FileWith(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  DDPRUN_ASSIGN(const ChildEnd end, RunInChild([&] {
                  ::dup2(input.get(), STDIN_FILENO);
                  ::dup2(STDERR_FILENO, STDOUT_FILENO);
                  ::execv(target.program.c_str(), CStrings(words).data());
                  return 127;
                }));
  return end.stop_signal ? 128 + *end.stop_signal : end.exit_code;
}

}  // namespace ddprun::launcher
