#include "trainer/report/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/whole_file.h"
#include "trainer/config/config_text.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

// So many runs of one name point to a loop gone wrong.
constexpr int kMaxSuffix = 100000;

Error FolderError(const std::string& path, const std::string& doing, int error_number) {
  return Error{.title = "RUN FOLDER",
               .where = path,
               .what = doing + ": " + ErrnoText(error_number) + ".",
               .hint = "Choose another folder with run.output_dir, or make this one writable.",
               .page = "run-folder"};
}

std::string ReplaceName(std::string text, const std::string& name) {
  constexpr std::string_view kPlaceholder = "{name}";
  size_t at = text.find(kPlaceholder);
  while (at != std::string::npos) {
    text.replace(at, kPlaceholder.size(), name);
    at = text.find(kPlaceholder, at + name.size());
  }
  return text;
}

// Names of the jobs that the run belongs to, a line each; locked while it is under way.
constexpr const char* kLockFile = "/run.lock";

Result<UniqueFd> LockFolder(const std::string& path,
                            std::span<const std::string> jobs,
                            std::chrono::milliseconds patience) {
  const std::string file = path + kLockFile;
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return FolderError(path, "Making " + file, errno);
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;  // a file system without locks
    if (std::chrono::steady_clock::now() - begin >= patience) {
      return Error{.title = "RUN IN USE",
                   .where = path,
                   .what = "Another process trains in this run folder.",
                   .hint =
                       "Wait until it has ended, or give this run a name of its own "
                       "(run.name).",
                   .page = "run-in-use"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::string lines;
  for (const std::string& job : jobs) lines += job + "\n";
  if (::ftruncate(fd.get(), 0) != 0) return FolderError(path, "Writing " + file, errno);
  DDPRUN_TRY(WriteAll(fd.get(), lines, file));
  return fd;
}

bool BelongsTo(const std::string& folder, std::span<const std::string> jobs) {
  std::ifstream file(folder + kLockFile);
  for (std::string line; std::getline(file, line);) {
    if (std::ranges::find(jobs, line) != jobs.end()) return true;
  }
  return false;
}

Status WriteConfig(const Config& resolved, RunFolder* folder) {
  const std::string text = WriteResolvedConfig(resolved);
  folder->config_hash = ConfigHash(text);
  // The first step need not wait for a disk.
  return WriteWholeFile(folder->path + "/" + kResolvedConfig, text, Durability::kUnsynced);
}

// Where run.output_dir says, without a number.
std::string WantedRunFolder(const Config& config) {
  std::string wanted = ReplaceName(config.run.output_dir, config.run.name);
  while (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
  return wanted;
}

std::string NumberedFolder(const std::string& wanted, int number) {
  return number == 1 ? wanted : wanted + "-" + std::to_string(number);
}

// The run.name of the run that has this folder; "" where it cannot be read.
std::string NameOfRunIn(const std::string& folder) {
  std::ifstream file(folder + "/" + kResolvedConfig);
  const nlohmann::json config = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer name("/run/name");
  const bool named = config.contains(name) && config[name].is_string();
  return named ? config[name].get<std::string>() : "";
}

// mkdir decides which of two runs that start at once gets the name.
Result<std::string> MakeNewFolder(const std::string& wanted) {
  std::error_code error;
  const fs::path parent = fs::path(wanted).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) return FolderError(wanted, "Making " + parent.string(), error.value());
  for (int suffix = 1; suffix <= kMaxSuffix; ++suffix) {
    const std::string path = NumberedFolder(wanted, suffix);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) return FolderError(path, "Making " + path, errno);
  }
  return FolderError(wanted, "Making " + wanted, EEXIST);
}

}  // namespace

std::string CheckpointFolderOf(const std::string& run, const std::string& checkpoint_dir) {
  if (checkpoint_dir.empty()) return run + "/checkpoints";
  return checkpoint_dir + "/" + fs::path(run + "/").parent_path().filename().string();
}

std::string RunName(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc = {};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> buffer{};
  std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H-%M-%S", &utc);
  return buffer.data();
}

std::string ConfigHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3U;
  }
  std::array<char, 17> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%016llx", static_cast<unsigned long long>(hash));
  return buffer.data();
}

Result<RunFolder> MakeRunFolder(const Config& config,
                                double unix_seconds,
                                std::span<const std::string> jobs) {
  Config resolved = config;
  if (resolved.run.name.empty()) resolved.run.name = RunName(unix_seconds);
  RunFolder folder;
  folder.name = resolved.run.name;
  DDPRUN_ASSIGN(folder.path, MakeNewFolder(WantedRunFolder(resolved)));
  DDPRUN_ASSIGN(folder.lock, LockFolder(folder.path, jobs, std::chrono::milliseconds(0)));
  DDPRUN_TRY(WriteConfig(resolved, &folder));
  return folder;
}

Result<RunFolder> TakeUpRunFolder(const std::string& path,
                                  const Config& config,
                                  std::span<const std::string> jobs,
                                  std::chrono::milliseconds patience) {
  RunFolder folder;
  folder.path = path;
  DDPRUN_ASSIGN(folder.lock, LockFolder(folder.path, jobs, patience));
  folder.name = NameOfRunIn(path);
  if (folder.name.empty()) folder.name = config.run.name;
  Config resolved = config;
  resolved.run.name = folder.name;
  DDPRUN_TRY(WriteConfig(resolved, &folder));
  return folder;
}

std::vector<std::string> RunFoldersOfName(const Config& config) {
  const std::string wanted = WantedRunFolder(config);
  std::vector<std::string> folders;
  std::error_code error;
  for (int number = 1; fs::exists(NumberedFolder(wanted, number), error); ++number) {
    std::string path = NumberedFolder(wanted, number);
    if (NameOfRunIn(path) == config.run.name) folders.push_back(std::move(path));
  }
  return folders;
}

// Of a run without a name the folder is among the newest: their names are dates.
std::string FindRunFolder(const Config& config, std::span<const std::string> jobs) {
  constexpr size_t kMostLookedAt = 100;
  // "runs/{name}/a": "runs/", what begins with the name, "/a"
  std::string wanted = config.run.output_dir;
  while (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
  const size_t name_at = std::min(wanted.find("{name}"), wanted.size());
  const size_t begin = wanted.rfind('/', name_at) + 1;  // 0 where there is none
  const size_t end = std::min(wanted.find('/', name_at), wanted.size());
  const std::string parent = wanted.substr(0, begin);
  const std::string rest = ReplaceName(wanted.substr(end), config.run.name);
  const bool named = name_at < wanted.size();
  const std::string prefix = wanted.substr(begin, name_at - begin) + (named ? config.run.name : "");
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent.empty() ? "." : parent, error)) {
    names.push_back(entry.path().filename().string());
    if (!names.back().starts_with(prefix)) names.pop_back();
  }
  // Those with the largest number first: an earlier job may have had the same name.
  std::ranges::sort(names, std::greater<>(), [&](const std::string& name) {
    return std::pair(config.run.name.empty() ? 0 : name.size(), name);
  });
  names.resize(std::min(names.size(), kMostLookedAt));
  for (const std::string& name : names) {
    std::string path = parent + name + rest;
    std::string found;
    for (int suffix = 2; fs::exists(path, error); ++suffix) {
      if (BelongsTo(path, jobs)) found = path;
      if (rest.empty()) break;  // those with a number are in the list
      path = parent + name + rest + "-" + std::to_string(suffix);
    }
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace ddprun::trainer
