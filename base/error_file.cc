#include "base/error_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/env.h"

namespace ddprun {

namespace {

using nlohmann::json;

// The timestamp is a number in one form and a string in the other.
int64_t Seconds(const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_string()) return ParseInt(value.get<std::string>()).value_or(0);
  return 0;
}

}  // namespace

Status WriteErrorFile(const std::string& path, const WorkerError& error) {
  const json extra = {{"py_callstack", error.callstack},
                      {"timestamp", std::to_string(error.timestamp_s)}};
  const json document = {{"message", {{"message", error.message}, {"extraInfo", extra}}}};
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  {
    std::ofstream file(temporary, std::ios::binary);
    // Worker output may hold any bytes; JSON holds UTF-8 only.
    file << document.dump(-1, ' ', false, json::error_handler_t::replace);
    if (!file.flush()) return SystemError("writing " + temporary, errno);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return SystemError("renaming " + temporary + " to " + path, errno);
  }
  return {};
}

std::optional<WorkerError> ReadErrorFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  const json document = json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("message")) return std::nullopt;
  const json& message = document["message"];
  if (message.is_string()) {
    return WorkerError{message.get<std::string>(), "",
                       Seconds(document.value("timestamp", json()))};
  }
  if (!message.is_object() || !message.contains("message")) return std::nullopt;
  const json& inner = message["message"];
  const json extra = message.value("extraInfo", json::object());
  WorkerError result;
  result.message = inner.is_string() ? inner.get<std::string>() : inner.dump();
  if (extra.is_object()) {
    const json callstack = extra.value("py_callstack", json(""));
    if (callstack.is_string()) result.callstack = callstack.get<std::string>();
    result.timestamp_s = Seconds(extra.value("timestamp", json()));
  }
  return result;
}

}  // namespace ddprun
