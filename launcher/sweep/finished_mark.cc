#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "launcher/sweep/sweep_run.h"

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

}  // namespace

std::optional<std::string> FindFinished(const std::string& sweep_folder,
                                        const RunIdentity& identity) {
  // Written and parsed, so that bytes that are not UTF-8 are replaced as in the mark.
  const Json wanted = Json::parse(
      Describe(identity).dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
  for (const std::string& folder : FinishedFolders(sweep_folder)) {
    const auto text = ReadIfReadable(folder + "/" + std::string(kMarkName));
    if (text && Json::parse(*text, nullptr, /*allow_exceptions=*/false) == wanted) return folder;
  }
  return std::nullopt;
}

std::vector<std::string> FinishedFolders(const std::string& sweep_folder) {
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(sweep_folder, ignored)) {
    if (fs::exists(entry.path() / kMarkName, ignored)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

Status MarkFinished(const std::string& run_folder, const RunIdentity& identity) {
  return WriteFileAtomically(
      run_folder + "/" + std::string(kMarkName),
      Describe(identity).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace ddprun::launcher
