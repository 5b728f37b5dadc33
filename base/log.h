// Lines for the person at the terminal: "[ddprun n0] message key=value". A handle that is passed
// around, not a global; thread: as safe as the sink it was given.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// The level that LOGLEVEL's text names (as Python spells it, any case); kInfo for anything else.
LogLevel ParseLogLevel(std::string_view text);

class Log {
 public:
  using Sink = std::function<void(std::string_view line)>;
  using Field = std::pair<std::string_view, std::string>;

  // `sink` gets one whole line at a time, ending in a newline. Lines below `min` are dropped.
  Log(std::string prefix, LogLevel min, Sink sink);

  void Debug(std::string_view message, std::initializer_list<Field> fields = {}) const;
  void Info(std::string_view message, std::initializer_list<Field> fields = {}) const;
  void Warning(std::string_view message, std::initializer_list<Field> fields = {}) const;
  void Error(std::string_view message, std::initializer_list<Field> fields = {}) const;

 private:
  void Write(LogLevel level, std::string_view message, std::initializer_list<Field> fields) const;

  std::string prefix_;
  LogLevel min_;
  Sink sink_;
};

}  // namespace ddprun
