#include "base/log.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace ddprun {

namespace {

std::string_view LevelMark(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug: ";
    case LogLevel::kInfo:
      return "";
    case LogLevel::kWarning:
      return "warning: ";
    case LogLevel::kError:
      return "error: ";
  }
  return "";
}

}  // namespace

LogLevel ParseLogLevel(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "DEBUG") return LogLevel::kDebug;
  if (upper == "WARNING" || upper == "WARN") return LogLevel::kWarning;
  if (upper == "ERROR" || upper == "CRITICAL") return LogLevel::kError;
  return LogLevel::kInfo;
}

Log::Log(std::string prefix, LogLevel min, Sink sink)
    : prefix_(std::move(prefix)), min_(min), sink_(std::move(sink)) {}

void Log::Debug(std::string_view message, std::initializer_list<Field> fields) const {
  Write(LogLevel::kDebug, message, fields);
}

void Log::Info(std::string_view message, std::initializer_list<Field> fields) const {
  Write(LogLevel::kInfo, message, fields);
}

void Log::Warning(std::string_view message, std::initializer_list<Field> fields) const {
  Write(LogLevel::kWarning, message, fields);
}

void Log::Error(std::string_view message, std::initializer_list<Field> fields) const {
  Write(LogLevel::kError, message, fields);
}

void Log::Write(LogLevel level,
                std::string_view message,
                std::initializer_list<Field> fields) const {
  if (level < min_) return;
  std::string line = "[" + prefix_ + "] ";
  line += LevelMark(level);
  line += message;
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    line += value;
  }
  line += '\n';
  // Names and messages of other nodes are in it.
  sink_(Printable(line));
}

}  // namespace ddprun
