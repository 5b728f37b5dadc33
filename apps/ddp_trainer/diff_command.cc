#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/report/compare_runs.h"

namespace ddprun::trainer {

namespace {

struct DiffFlags {
  std::string first;
  std::string second;
};

bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// The run's time of training, which always differs.
constexpr const char* kClock = "run.seconds";

// Returns the names of tensors that differ, sorted.
std::vector<std::string> DifferentTensors(const Checkpoint& a, const Checkpoint& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a.tensors()) {
    if (name == kClock) continue;
    const bool both = b.tensors().contains(name);
    if (!both || !SameBytes(a.Read(name), b.Read(name))) names.push_back(name);
  }
  for (const auto& [name, tensor] : b.tensors()) {
    if (!a.tensors().contains(name)) names.push_back(name);
  }
  return names;
}

std::string MoreText(int64_t count) {
  return count > 1 ? ", and " + std::to_string(count - 1) + " more" : "";
}

void PrintConfigs(const std::vector<ConfigDifference>& differences) {
  if (differences.empty()) std::puts("configs: the same");
  for (const auto& [key, first, second] : differences) {
    std::printf("config: %s: %s, %s\n", key.c_str(), first.empty() ? "-" : first.c_str(),
                second.empty() ? "-" : second.c_str());
  }
}

// Returns whether the runs differ; nullopt means that there is no step of which both have hashes.
std::optional<bool> PrintHashes(const std::string& first, const std::string& second) {
  const auto compared = CompareHashes(first, second);
  if (!compared) return std::nullopt;
  if (compared->steps == 0) {
    std::puts("state hashes: there is no step of which both runs have them");
    return std::nullopt;
  }
  const std::string steps = CountText(compared->steps, "step");
  if (!compared->other_names.empty()) {
    std::printf("state hashes: only one of the runs has \"%s\"\n", compared->other_names.c_str());
  } else if (compared->first) {
    const HashDifference& found = *compared->first;
    std::printf("state hashes: the first of %s that differs is step %lld: %s, on rank %d%s\n",
                steps.c_str(), static_cast<long long>(found.step), found.tensor.c_str(), found.rank,
                MoreText(found.tensors).c_str());
  } else {
    std::printf("state hashes: the same in %s\n", steps.c_str());
  }
  return compared->first.has_value() || !compared->other_names.empty();
}

bool PrintRanks(const std::string& run) {
  const auto found = CompareRanks(run);
  if (!found) return false;
  std::printf("ranks of %s: from step %lld on rank %d differs from rank 0: %s%s\n", run.c_str(),
              static_cast<long long>(found->step), found->rank, found->tensor.c_str(),
              MoreText(found->tensors).c_str());
  return true;
}

// Compares steps of which both runs have a checkpoint; nullopt means that there are none.
std::optional<bool> PrintCheckpoints(const std::string& first, const std::string& second) {
  const auto of_first = ValueOrThrow(ListCheckpoints(CheckpointsOf(first)));
  const auto of_second = ValueOrThrow(ListCheckpoints(CheckpointsOf(second)));
  int64_t compared = 0;
  for (const StoredCheckpoint& one : of_first) {
    const auto other = std::ranges::find(of_second, one.step, &StoredCheckpoint::step);
    if (other == of_second.end()) continue;
    const Checkpoint a = ValueOrThrow(Checkpoint::Open(one.path));
    const Checkpoint b = ValueOrThrow(Checkpoint::Open(other->path));
    const std::vector<std::string> names = DifferentTensors(a, b);
    ++compared;
    if (names.empty()) continue;
    std::printf("checkpoints: those of step %lld differ: %s%s\n", static_cast<long long>(one.step),
                names.front().c_str(), MoreText(static_cast<int64_t>(names.size())).c_str());
    return true;
  }
  if (compared == 0) return std::nullopt;
  std::printf("checkpoints: the same in %s\n", CountText(compared, "step").c_str());
  return false;
}

int Diff(const std::string& first, const std::string& second) {
  PrintConfigs(ValueOrThrow(CompareConfigs(first, second)));
  const auto hashes = PrintHashes(first, second);
  bool differ = hashes.value_or(false);
  for (const std::string& run : {first, second}) differ |= PrintRanks(run);
  const auto checkpoints = PrintCheckpoints(first, second);
  differ |= checkpoints.value_or(false);
  if (!hashes && !checkpoints) {
    std::puts(
        "nothing to compare: no state hashes (report.state_hashes) and no checkpoint of a "
        "step of which both have one");
  }
  if (differ) return 1;
  return hashes || checkpoints ? 0 : 2;
}

}  // namespace

void AddDiffCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<DiffFlags>();
  CLI::App* command = app.add_subcommand(
      "diff", "Say where two runs part: configs, steps (report.state_hashes), checkpoints");
  command->add_option("first", flags->first, "Run folder")->required();
  command->add_option("second", flags->second, "Run folder")->required();
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment&) { return Diff(flags->first, flags->second); };
  });
}

}  // namespace ddprun::trainer
