#include "launcher/sweep/finished_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kMarkName = "finished.json";

Json Describe(const RunIdentity& identity) {
  return {{"workers", identity.workers},
          {"overrides", identity.overrides},
          {"config", identity.config}};
}

Status WriteWhole(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return SystemError("writing " + path, errno);
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(fd.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("writing " + path, errno);
    written += static_cast<size_t>(count);
  }
  if (::fsync(fd.get()) != 0) return SystemError("writing " + path, errno);
  return {};
}

}  // namespace

std::optional<std::string> FindFinished(const std::string& sweep_folder,
                                        const RunIdentity& identity) {
  // The config may hold bytes that are no UTF-8, which JSON replaces when it is written.
  const Json wanted = Json::parse(
      Describe(identity).dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
  std::set<std::string> folders;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(sweep_folder, ignored)) {
    folders.insert(entry.path());
  }
  for (const std::string& folder : folders) {
    std::ifstream file(folder + "/" + std::string(kMarkName));
    if (file && Json::parse(file, nullptr, /*allow_exceptions=*/false) == wanted) return folder;
  }
  return std::nullopt;
}

Status MarkFinished(const std::string& run_folder, const RunIdentity& identity) {
  const std::string path = run_folder + "/" + std::string(kMarkName);
  const std::string draft = path + ".new";
  const std::string text =
      Describe(identity).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  DDPRUN_TRY(WriteWhole(draft, text));
  if (std::rename(draft.c_str(), path.c_str()) != 0) return SystemError("writing " + path, errno);
  return {};
}

}  // namespace ddprun::launcher
