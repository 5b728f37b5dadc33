#include "trainer/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <regex>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/owned_folder.h"
#include "trainer/checkpoint/commit.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kUnfinished = ".tmp-";

struct StepName {
  int64_t step = 0;
  std::string rest;  // after the number
};

std::optional<StepName> ParseStepName(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  StepName parsed;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kStepPrefix.size(), end, parsed.step);
  if (error != std::errc() || parsed.step < 0) return std::nullopt;
  parsed.rest = std::string(at, end);
  return parsed;
}

struct Found {
  std::string path;
  StepName name;
};
// Returns the entries that are named after a step; none if the folder does not exist.
Result<std::vector<Found>> FindSteps(const std::string& folder) {
  std::vector<Found> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::optional<StepName> name = ParseStepName(entry->path().filename().string());
    if (name) found.push_back({entry->path().string(), *std::move(name)});
  }
  if (error && !IsMissingFile(error.value())) return UnreadableCheckpoint(folder, error.value());
  return found;
}

Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return CannotWrite(from, errno);
  return SyncFolder(fs::path(from).parent_path().string());
}

Status SetAside(const std::string& path) {
  for (int number = 1;; ++number) {
    const std::string name = path + ".aside-" + std::to_string(number);
    std::error_code error;
    if (!fs::exists(name, error)) return Rename(path, name);
  }
}

}  // namespace

bool IsCheckpointFile(const std::string&, const std::string& name) {
  static const std::regex of_ranks(R"(shard-\d{5,}-of-\d{5,}\.safetensors|rank-\d{5,}\.json)");
  static const std::regex unfinished(R"(\.\d+(-\d+)?\.tmp$)");  // by AtomicFile
  const std::string whole = std::regex_replace(name, unfinished, "");
  return whole == kIndexFile || whole == kCommitFile || std::regex_match(whole, of_ranks);
}

std::string CheckpointPath(const std::string& folder, int64_t step) {
  return folder + "/" + std::string(kStepPrefix) + std::to_string(step);
}

Result<std::vector<StoredCheckpoint>> ListCheckpoints(const std::string& folder) {
  std::vector<StoredCheckpoint> stored;
  DDPRUN_ASSIGN(const std::vector<Found> found, FindSteps(folder));
  for (const Found& item : found) {
    if (!item.name.rest.empty()) continue;
    const Result<Commit> commit = ReadCommit(item.path);
    if (!commit && !IsDamage(commit.error())) return commit.error();
    stored.push_back({item.path, item.name.step, commit ? commit->score : std::nullopt});
  }
  std::ranges::sort(stored, {}, &StoredCheckpoint::step);
  return stored;
}

Result<NewestCheckpoint> OpenNewest(const std::string& folder, Verify verify, int64_t before) {
  NewestCheckpoint newest;
  DDPRUN_ASSIGN(const std::vector<StoredCheckpoint> stored, ListCheckpoints(folder));
  for (auto item = stored.rbegin(); item != stored.rend(); ++item) {
    if (item->step >= before) continue;
    Result<Checkpoint> opened = Checkpoint::Open(item->path, verify);
    if (opened) {
      newest.checkpoint = *std::move(opened);
      break;
    }
    if (!IsDamage(opened.error())) return opened.error();
    newest.skipped.push_back(std::move(opened).error());
  }
  return newest;
}

std::vector<StoredCheckpoint> FindSurplus(std::span<const StoredCheckpoint> stored,
                                          int64_t committed,
                                          const Retention& retention) {
  if (retention.newest == 0) return {};
  std::vector<StoredCheckpoint> reached(stored.begin(), stored.end());
  std::erase_if(reached, [&](const StoredCheckpoint& item) { return item.step > committed; });
  std::ranges::sort(reached, std::greater(), &StoredCheckpoint::step);
  const auto count = std::min(reached.size(), static_cast<size_t>(retention.newest));
  std::vector<StoredCheckpoint> rest(reached.begin() + static_cast<std::ptrdiff_t>(count),
                                     reached.end());
  // The best of all checkpoints, including the newest.
  std::erase_if(
      reached, [](const StoredCheckpoint& item) { return !item.score || std::isnan(*item.score); });
  std::ranges::stable_sort(reached, [&](const StoredCheckpoint& a, const StoredCheckpoint& b) {
    return retention.higher_is_better ? *a.score > *b.score : *a.score < *b.score;
  });
  if (retention.best > 0 && reached.size() > static_cast<size_t>(retention.best)) {
    reached.resize(static_cast<size_t>(retention.best));
  }
  std::erase_if(rest, [&](const StoredCheckpoint& item) {
    return std::ranges::find(reached, item.step, &StoredCheckpoint::step) != reached.end();
  });
  return rest;
}

Status RemoveUnfinished(const std::string& folder, int64_t step, const std::string& keep) {
  DDPRUN_ASSIGN(const std::vector<Found> found, FindSteps(folder));
  for (const Found& item : found) {
    if (!item.name.rest.starts_with(kUnfinished) || item.name.step > step) continue;
    // Skips entries that this program has not written.
    if (item.path == keep || !CheckOnlyOwnEntries(item.path, IsCheckpointFile).ok()) continue;
    DDPRUN_TRY(RemoveOwnFolder(item.path, IsCheckpointFile));
  }
  return {};
}

Status RemoveCheckpoint(const std::string& path) {
  DDPRUN_TRY(CheckOnlyOwnEntries(path, IsCheckpointFile));
  // Renames it first, so that a half deleted folder does not have the name of a checkpoint.
  const std::string doomed = path + std::string(kUnfinished) + "deleted";
  DDPRUN_TRY(Rename(path, doomed));
  return RemoveOwnFolder(doomed, IsCheckpointFile);
}

Status PrepareCheckpointFolder(const std::string& folder, int64_t step) {
  DDPRUN_ASSIGN(const std::vector<Found> found, FindSteps(folder));
  DDPRUN_TRY(RemoveUnfinished(folder, INT64_MAX));
  for (const Found& item : found) {
    const bool later = item.name.rest.empty() && item.name.step > step;
    if (later) DDPRUN_TRY(SetAside(item.path));
  }
  return {};
}

}  // namespace ddprun::trainer
