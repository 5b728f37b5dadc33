#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "base/unique_fd.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

Error NotFound(const std::string& path) {
  std::error_code ignored;
  const fs::path parent = fs::path(path).parent_path();
  const fs::path folder = parent.empty() ? fs::path(".") : parent;
  Diagnostic diagnostic{.title = "CONFIG NOT FOUND",
                        .page = "config-not-found",
                        .found = "There is no file " + path + "."};
  if (!fs::is_directory(folder, ignored)) {
    diagnostic.found = "There is no folder " + folder.string() + ".";
    return ErrorIn(path, diagnostic);
  }
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, ignored), end; it != end && !ignored;
       it.increment(ignored)) {
    if (it->path().extension() == ".json") names.push_back(it->path().filename().string());
  }
  if (const auto nearest = FindNearestFile(fs::path(path).filename().string(), names)) {
    diagnostic.hint = "Did you mean " + (parent / *nearest).string() + "?";
  } else {
    diagnostic.hint = "Relative paths start at the working directory, " +
                      fs::current_path(ignored).string() + ".";
  }
  return ErrorIn(path, diagnostic);
}

Error Unreadable(const std::string& path, const std::string& found, const std::string& hint = "") {
  return ErrorIn(path, {.title = "CONFIG NOT READABLE",
                        .page = "config-not-readable",
                        .found = found,
                        .hint = hint});
}

}  // namespace

Result<Source> LoadConfigFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return NotFound(path);
    return Unreadable(path, path + " cannot be opened: " + ErrnoText(errno) + ".");
  }
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) {
    return Unreadable(path, path + " cannot be read: " + ErrnoText(errno) + ".");
  }
  if (S_ISDIR(status.st_mode)) {
    return Unreadable(path, path + " is a folder.", "Name the .json file inside it.");
  }
  std::string text;
  char buffer[65536];
  while (text.size() <= kMaxConfigBytes) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unreadable(path, path + " cannot be read: " + ErrnoText(errno) + ".");
    if (count == 0) {
      constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
      if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
      return Source{Source::Kind::kFile, path, std::move(text)};
    }
    text.append(buffer, static_cast<size_t>(count));
  }
  return Unreadable(path, path + " is larger than 1 MiB: this is no config file.",
                    "Name data files in data.train_files.");
}

}  // namespace ddprun::trainer
