#include "trainer/report/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/run_requests.h"
#include "trainer/config/config_text.h"
#include "trainer/report/checkpoint_owner.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

// More runs of one name are probably the error of a loop.
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

// kRunLock has the names of the run's jobs and its id, a line each.
constexpr std::string_view kId = "run ";

std::string RandomWord() {
  std::random_device random;
  std::array<char, 17> word;
  std::snprintf(word.data(), word.size(), "%08x%08x", random(), random());
  return word.data();
}

Result<UniqueFd> LockFolder(const std::string& path, std::chrono::milliseconds patience) {
  const std::string file = path + "/" + kRunLock;
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return FolderError(path, "Making " + file, errno);
  DDPRUN_TRY(LockFile(fd, path, patience));
  return fd;
}

// Only appends lines, so that a crash loses none. Syncs the file before anything is saved that
// another start of the job has to find.
Status AddToLock(const RunFolder& folder, std::span<const std::string> jobs) {
  DDPRUN_ASSIGN(const std::vector<std::string> there, JobsOfRunFolder(folder.path));
  std::string added;
  const auto add = [&](const std::string& line) {
    if (std::ranges::find(there, line) == there.end()) added += line + "\n";
  };
  add(std::string(kId) + folder.id);
  for (const std::string& job : jobs) add(job);
  if (added.empty()) return {};
  const std::string path = folder.path + "/" + kRunLock;
  // Begins a new line, because a crash may have cut off the last one.
  DDPRUN_TRY(WriteAll(folder.lock.get(), there.empty() ? added : "\n" + added, path));
  if (::fsync(folder.lock.get()) != 0) return CannotWrite(path, errno);
  return SyncFolder(fs::path(folder.path).parent_path().string());
}

Result<bool> BelongsTo(const std::string& folder, std::span<const std::string> jobs) {
  DDPRUN_ASSIGN(const std::vector<std::string> lines, JobsOfRunFolder(folder));
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return std::ranges::find(jobs, line) != jobs.end(); });
}

// Returns an absolute path, because a run may resume from another working directory.
std::string AbsolutePath(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

// Returns the config of the run in this folder, as the text of config.resolved.json.
std::string ResolvedText(Config config, const RunFolder& folder) {
  config.run.name = folder.name;
  config.checkpoint.dir = AbsolutePath(config.checkpoint.dir);
  // A path is the checkpoint from which this run began.
  if (!folder.origin.empty()) config.run.resume = folder.origin;
  if (folder.origin.empty() && ResumesPath(config)) config.run.resume = "job";
  return WriteResolvedConfig(config);
}

// Returns the folder of run.output_dir, without a number.
std::string WantedRunFolder(const Config& config) {
  std::string wanted = ReplaceName(config.run.output_dir, config.run.name);
  while (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
  return wanted;
}

std::string NumberedFolder(const std::string& wanted, int number) {
  return number == 1 ? wanted : wanted + "-" + std::to_string(number);
}

// Returns the names in a folder that begin with `prefix`; none if there is no folder.
Result<std::vector<std::string>> NamesIn(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(prefix)) names.push_back(std::move(name));
  }
  const int number = error.value();
  if (number != 0 && number != ENOENT && number != ENOTDIR) {
    return FolderError(folder, "Reading it", number);
  }
  return names;
}

// Returns the existing folders of `wanted`, `wanted`-2 ..., in the order of their numbers.
Result<std::vector<std::string>> NumberedFolders(const std::string& wanted) {
  const size_t begin = wanted.rfind('/') + 1;  // 0 if there is none
  const std::string base = wanted.substr(begin);
  DDPRUN_ASSIGN(const std::vector<std::string> names, NamesIn(wanted.substr(0, begin), base));
  std::map<int, std::string> found;
  for (const std::string& name : names) {
    const char* const digits = name.data() + std::min(base.size() + 1, name.size());
    int number = 1;
    std::from_chars(digits, name.data() + name.size(), number);
    if (NumberedFolder(base, number) == name) found[number] = wanted.substr(0, begin) + name;
  }
  std::vector<std::string> folders;
  for (auto& [number, path] : found) folders.push_back(std::move(path));
  return folders;
}

// Returns the folders that runs of this config may have made, in the order of time.
Result<std::vector<std::string>> FoldersOf(const Config& config) {
  std::string pattern = config.run.output_dir;
  while (pattern.size() > 1 && pattern.back() == '/') pattern.pop_back();
  const size_t name_at = pattern.find("{name}");
  if (!config.run.name.empty() || name_at == pattern.npos) {
    return NumberedFolders(WantedRunFolder(config));
  }
  // A run without a name: divides "runs/a-{name}/b" into "runs/", names with "a-" before, and "/b".
  const size_t begin = pattern.rfind('/', name_at) + 1;
  const std::string parent = pattern.substr(0, begin);
  const std::string rest = pattern.substr(std::min(pattern.find('/', name_at), pattern.size()));
  DDPRUN_ASSIGN(std::vector<std::string> names,
                NamesIn(parent, pattern.substr(begin, name_at - begin)));
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    return ::strverscmp(a.c_str(), b.c_str()) < 0;  // dates, and numbers after them
  });
  std::vector<std::string> folders;
  for (const std::string& name : names) {
    if (rest.empty()) {
      folders.push_back(parent + name);
      continue;
    }
    DDPRUN_ASSIGN(const std::vector<std::string> inner, NumberedFolders(parent + name + rest));
    folders.insert(folders.end(), inner.begin(), inner.end());
  }
  return folders;
}

// Returns the config of the run in a folder.
Result<nlohmann::json> ConfigIn(const std::string& folder) {
  DDPRUN_ASSIGN(const std::optional<std::string> text,
                ReadIfExists(folder + "/" + kResolvedConfig));
  return nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
}

// Returns the text at `place`; "" if there is none.
std::string TextAt(const nlohmann::json& config, const char* place) {
  const nlohmann::json::json_pointer pointer(place);
  const bool there = config.is_object() && config.contains(pointer) && config[pointer].is_string();
  return there ? config[pointer].get<std::string>() : "";
}

// Uses mkdir to decide which of two runs that start at once gets the name. The name of its
// checkpoint folder must be free, too.
Status MakeNewFolder(const std::string& wanted, const std::string& dir, RunFolder& folder) {
  std::error_code error;
  const fs::path parent = fs::path(wanted).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) return FolderError(wanted, "Making " + parent.string(), error.value());
  for (int suffix = 1; suffix <= kMaxSuffix; ++suffix) {
    folder.path = NumberedFolder(wanted, suffix);
    if (::mkdir(folder.path.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return FolderError(folder.path, "Making " + folder.path, errno);
    }
    folder.checkpoints = CheckpointFolderOf(folder.path, dir);
    if (dir.empty()) return {};
    auto claimed = ClaimNewFolder(folder.checkpoints, {folder.id, AbsolutePath(folder.path)});
    if (claimed) {
      folder.checkpoints_lock = *std::move(claimed);
      return {};
    }
    ::rmdir(folder.path.c_str());
  }
  return FolderError(wanted, "Making " + wanted, EEXIST);
}

}  // namespace

Result<std::vector<std::string>> JobsOfRunFolder(const std::string& folder) {
  DDPRUN_ASSIGN(const std::optional<std::string> text, ReadIfExists(folder + "/" + kRunLock));
  std::vector<std::string> lines;
  std::istringstream stream(text.value_or(""));
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

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

bool ResumesPath(const Config& config) {
  const std::string& resume = config.run.resume;
  return resume != "job" && resume != "auto" && resume != "never";
}

Result<RunFolder> MakeRunFolder(const Config& config,
                                double unix_seconds,
                                const std::string& origin) {
  Config named = config;
  if (named.run.name.empty()) named.run.name = RunName(unix_seconds);
  RunFolder folder{.name = named.run.name, .id = RandomWord(), .made = true};
  folder.origin = AbsolutePath(origin);
  DDPRUN_TRY(MakeNewFolder(WantedRunFolder(named), config.checkpoint.dir, folder));
  DDPRUN_ASSIGN(folder.lock, LockFolder(folder.path, {}));
  folder.config_hash = ConfigHash(ResolvedText(config, folder));
  return folder;
}

Result<RunFolder> OpenRunFolder(const std::string& path,
                                const Config& config,
                                std::chrono::milliseconds patience) {
  RunFolder folder{.path = path};
  DDPRUN_ASSIGN(folder.lock, LockFolder(path, patience));
  DDPRUN_ASSIGN(const std::vector<std::string> lines, JobsOfRunFolder(path));
  for (const std::string& line : lines) {
    if (line.starts_with(kId)) folder.id = line.substr(kId.size());
  }
  if (folder.id.empty()) folder.id = RandomWord();
  DDPRUN_ASSIGN(const nlohmann::json before, ConfigIn(path));
  folder.name = TextAt(before, "/run/name");
  if (folder.name.empty()) folder.name = config.run.name;
  const std::string origin = TextAt(before, "/run/resume");
  std::error_code ignored;
  const bool is_run = fs::exists(origin + "/" + kResolvedConfig, ignored);
  if (fs::path(origin).is_absolute() && !is_run) folder.origin = origin;
  folder.checkpoints = CheckpointFolderOf(path, config.checkpoint.dir);
  if (!config.checkpoint.dir.empty()) {
    DDPRUN_ASSIGN(folder.checkpoints_lock, HoldOwnFolder(folder.checkpoints, folder.id, patience));
  }
  folder.config_hash = ConfigHash(ResolvedText(config, folder));
  return folder;
}

Status KeepRunFolder(RunFolder& folder, const Config& config, std::span<const std::string> jobs) {
  DDPRUN_TRY(AddToLock(folder, jobs));
  if (!config.checkpoint.dir.empty()) {
    const CheckpointOwner owner{folder.id, AbsolutePath(folder.path)};
    DDPRUN_TRY(KeepOwnFolder(folder.checkpoints, owner, folder.checkpoints_lock));
  }
  // Does not sync, so that the first step does not wait for a disk.
  return WriteFileAtomically(folder.path + "/" + kResolvedConfig, ResolvedText(config, folder),
                             Durability::kUnsynced);
}

void WithdrawRunFolder(RunFolder& folder) {
  if (!folder.made) return;
  std::error_code ignored;
  fs::remove(folder.path + "/" + kRunLock, ignored);
  fs::remove(folder.path, ignored);
  if (!folder.checkpoints_lock.valid()) return;
  WithdrawClaim(folder.checkpoints);
}

Result<std::vector<std::string>> RunFoldersOfName(const Config& config) {
  std::vector<std::string> folders;
  DDPRUN_ASSIGN(const std::vector<std::string> numbered, NumberedFolders(WantedRunFolder(config)));
  for (const std::string& path : numbered) {
    DDPRUN_ASSIGN(const nlohmann::json found, ConfigIn(path));
    if (TextAt(found, "/run/name") == config.run.name) folders.push_back(path);
  }
  return folders;
}

Result<std::string> FindRunFolder(const Config& config, std::span<const std::string> jobs) {
  if (jobs.empty()) return std::string();
  DDPRUN_ASSIGN(const std::vector<std::string> folders, FoldersOf(config));
  // Begins with the last folder, because an earlier job may have had this name.
  for (auto path = folders.rbegin(); path != folders.rend(); ++path) {
    DDPRUN_ASSIGN(const bool found, BelongsTo(*path, jobs));
    if (found) return *path;
  }
  return std::string();
}

}  // namespace ddprun::trainer
