// Lines for the person at the terminal: "[ddprun n0] warning: message key=value". A handle that is
// passed around, not a global; its copies are the same log. Any thread, if its sinks take any. What
// a line is made of stands in log.cc alone: spdlog.
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

// Python's names, any case. "CRITICAL" and "FATAL" are kError, "NOTSET" is kInfo.
std::optional<LogLevel> ParseLogLevel(std::string_view text);

struct LogOptions {
  std::string name;  // in brackets in front of each line; empty: nothing is
  LogLevel level = LogLevel::kInfo;
  bool time = false;  // begin lines with "2026-11-21T00:24:56.123Z"
};

class Log {
 public:
  using Sink = std::function<void(std::string_view text)>;
  using Field = std::pair<std::string_view, std::string>;

  // `sink` gets one whole line at a time, ending in a newline, from that level on.
  Log(const LogOptions& options, Sink sink);
  static Log ToStderr(const LogOptions& options);

  // From now on this sink gets all lines, debug ones too, without a newline, as
  // "2026-11-21T00:24:56.123Z warning [name] message".
  void CopyTo(Sink sink);
  // The last 32 lines likewise, oldest first.
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
