#include "trainer/report/run_folder.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/whole_file.h"
#include "trainer/config/config_text.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

// So many runs of one name point to a loop gone wrong.
constexpr int kMaxSuffix = 100000;

Error FolderError(const std::string& path, const std::string& doing, int error_number) {
  return Error{.code = Code::kFailed,
               .title = "RUN FOLDER",
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

// mkdir decides which of two runs that start at once gets the name.
Result<std::string> MakeNewFolder(const std::string& wanted) {
  std::error_code error;
  const fs::path parent = fs::path(wanted).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) return FolderError(wanted, "Making " + parent.string(), error.value());
  for (int suffix = 1; suffix <= kMaxSuffix; ++suffix) {
    const std::string path = suffix == 1 ? wanted : wanted + "-" + std::to_string(suffix);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) return FolderError(path, "Making " + path, errno);
  }
  return FolderError(wanted, "Making " + wanted, EEXIST);
}

}  // namespace

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

Result<RunFolder> MakeRunFolder(const Config& config, double unix_seconds) {
  Config resolved = config;
  if (resolved.run.name.empty()) resolved.run.name = RunName(unix_seconds);
  std::string wanted = ReplaceName(resolved.run.output_dir, resolved.run.name);
  while (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
  DDPRUN_ASSIGN(const std::string path, MakeNewFolder(wanted));
  const std::string text = WriteResolvedConfig(resolved);
  // The first step need not wait for a disk.
  DDPRUN_TRY(WriteWholeFile(path + "/config.resolved.json", text, Durability::kUnsynced));
  return RunFolder{path, resolved.run.name, ConfigHash(text)};
}

}  // namespace ddprun::trainer
