// Lines for the user at the terminal: "[ddprun n0] warning: message key=value". Copies of a Log
// share one log. Any thread may use it if its sinks allow that. Only log.cc includes spdlog.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Parses Python's names, in any case. "CRITICAL" and "FATAL" are kError, "NOTSET" is kInfo.
std::optional<LogLevel> ParseLogLevel(std::string_view text);

struct LogOptions {
  std::string name;  // in brackets before each line; "" means no brackets
  LogLevel level = LogLevel::kInfo;
  bool time = false;  // begin lines with "2026-11-21T00:24:56.123Z"
};

class Log {
 public:
  using Sink = std::function<void(std::string_view text)>;
  using Field = std::pair<std::string_view, std::string>;

  // `sink` gets lines of `options.level` and above, one at a time, with their newline.
  Log(const LogOptions& options, Sink sink);
  static Log ToStderr(const LogOptions& options);

  // From now on `sink` also gets each line, of any level and without its newline:
  // "2026-11-21T00:24:56.123Z warning [name] message".
  void CopyTo(Sink sink);
  // Returns the last 32 lines in the format of CopyTo(), oldest first.
  std::vector<std::string> LastLines() const;
  void Rename(std::string name);

  void Debug(std::string_view message, std::initializer_list<Field> fields = {}) const;
  void Info(std::string_view message, std::initializer_list<Field> fields = {}) const;
  void Warning(std::string_view message, std::initializer_list<Field> fields = {}) const;
  void Error(std::string_view message, std::initializer_list<Field> fields = {}) const;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace ddprun
