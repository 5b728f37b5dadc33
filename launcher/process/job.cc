#include "launcher/process/job.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/owned_folder.h"

namespace ddprun::launcher {

namespace {

std::string RandomHex(size_t digits) {
  std::array<uint8_t, 16> bytes{};
  // After boot, getrandom() returns 16 bytes at once.
  [[maybe_unused]] const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  std::string text;
  for (const uint8_t byte : bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    text += hex;
  }
  return text.substr(0, digits);
}

}  // namespace

std::string MakeJobId(const Environment& env) {
  const std::string outer = env.GetOr("DDPRUN_JOB_ID", "");
  return (outer.empty() ? "" : outer + "/") + RandomHex(16);
}

std::string MakeUuid() {
  std::string hex = RandomHex(32);
  hex[12] = '4';
  hex[16] = "89ab"[hex[16] % 4];
  for (const size_t at : {8, 13, 18, 23}) hex.insert(at, "-");
  return hex;
}

JobFolder::JobFolder(const Environment& env) {
  std::string base = env.GetOr("TMPDIR", "");
  if (base.empty()) base = "/tmp";
  // Makes the path absolute, because workers and the process that removes it may change directory.
  std::error_code ignored;
  path_ = std::filesystem::absolute(base, ignored) / ("ddprun_" + RandomHex(16));
}

Status JobFolder::Create() {
  if (::mkdir(path_.c_str(), 0700) != 0) {
    const std::string parent = std::filesystem::path(path_).parent_path();
    Error error = SystemError("creating a folder in " + parent, errno);
    error.hint = "Set TMPDIR to a folder that can be written to.";
    return error;
  }
  made_ = true;
  return {};
}

void JobFolder::Remove() {
  if (std::exchange(made_, false)) RemoveNewFolder(path_);
}

}  // namespace ddprun::launcher
