#include "launcher/agent/parent_error_file.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

namespace ddprun::launcher {

std::string ForParent(const std::string& error_file, const ProcessExit& exit) {
  using nlohmann::json;
  json document = json::parse(error_file, nullptr, /*allow_exceptions=*/false);
  const bool has_message =
      document.is_object() && document.contains("message") && document["message"].is_object();
  if (!has_message) return error_file;
  const auto* signaled = std::get_if<Signaled>(&exit);
  document["message"]["errorCode"] = signaled != nullptr ? -signaled->signal : ExitCode(exit);
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status PassErrorFileOn(const std::string& from, const ProcessExit& exit, const std::string& to) {
  std::ifstream file(from);
  if (!file) return {};
  std::stringstream text;
  text << file.rdbuf();
  const std::string unfinished = to + ".tmp";
  std::ofstream copy(unfinished, std::ios::trunc);
  copy << ForParent(text.str(), exit);
  copy.close();
  if (!copy || std::rename(unfinished.c_str(), to.c_str()) != 0) {
    return SystemError("writing TORCHELASTIC_ERROR_FILE=" + to, errno);
  }
  return {};
}

}  // namespace ddprun::launcher
