#include "base/log.h"

// Needed because ddprun forks workers while the log is open.
#define SPDLOG_NO_THREAD_ID
#define SPDLOG_NO_TLS
#define SPDLOG_PREVENT_CHILD_FD

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <cstdio>
#include <mutex>

#include "base/text.h"

namespace ddprun {

namespace {

using spdlog::details::log_msg;

constexpr size_t kLastLines = 32;
constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%eZ ";

class CallbackSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CallbackSink(Log::Sink callback) : callback_(std::move(callback)) {}

 private:
  void sink_it_(const log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    callback_({line.data(), line.size()});
  }
  void flush_() override {}

  const Log::Sink callback_;
};

// Writes "warning: ", and nothing for level info.
class Mark final : public spdlog::custom_flag_formatter {
 public:
  void format(const log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
    if (message.level == spdlog::level::info) return;
    const auto& name = spdlog::level::to_string_view(message.level);
    line.append(name.begin(), name.end());
    line.push_back(':');
    line.push_back(' ');
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Mark>(); }
};

std::unique_ptr<spdlog::formatter> Pattern(const std::string& pattern, const std::string& end) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc, end);
  formatter->add_flag<Mark>('*').set_pattern(pattern);
  return formatter;
}

std::string FullPattern(const std::string& name) {
  return std::string(kTime) + (name.empty() ? "%l %v" : "%l [%n] %v");
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(static_cast<int>(level) + SPDLOG_LEVEL_DEBUG);
}

}  // namespace

struct Log::Core {
  explicit Core(const std::string& name)
      : logger(name), last(std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(kLastLines)) {
    logger.set_level(spdlog::level::debug);
    logger.flush_on(spdlog::level::debug);
    Add(last, FullPattern(name), "");
  }

  void Add(const spdlog::sink_ptr& sink, const std::string& pattern, const std::string& end) {
    sink->set_formatter(Pattern(pattern, end));
    logger.sinks().push_back(sink);
  }

  void Write(LogLevel level, std::string_view message, std::initializer_list<Field> fields) {
    std::string text(message);
    for (const auto& [key, value] : fields) {
      text += ' ';
      text += key;
      text += '=';
      text += value;
    }
    // Other nodes' names and messages may be in it.
    text = MakePrintable(text);
    logger.log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
  }

  spdlog::logger logger;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> last;
};

std::optional<LogLevel> ParseLogLevel(std::string_view text) {
  const std::string name = ToAsciiLower(text);
  if (name == "notset") return LogLevel::kInfo;
  if (name == "fatal") return LogLevel::kError;
  switch (spdlog::level::from_str(name)) {
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    case spdlog::level::err:
    case spdlog::level::critical:
      return LogLevel::kError;
    default:
      return std::nullopt;
  }
}

Log::Log(const LogOptions& options, Sink sink) : core_(std::make_shared<Core>(options.name)) {
  auto shown = std::make_shared<CallbackSink>(std::move(sink));
  shown->set_level(ToSpdlog(options.level));
  const std::string time = options.time ? kTime : "";
  core_->Add(shown, time + (options.name.empty() ? "%*%v" : "[%n] %*%v"), "\n");
}

Log Log::ToStderr(const LogOptions& options) {
  return Log(options,
             [](std::string_view line) { std::fwrite(line.data(), 1, line.size(), stderr); });
}

void Log::CopyTo(Sink sink) {
  core_->Add(std::make_shared<CallbackSink>(std::move(sink)), FullPattern(core_->logger.name()),
             "");
}

std::vector<std::string> Log::LastLines() const {
  return core_->last->last_formatted();
}

void Log::Rename(std::string name) {
  core_->logger = *core_->logger.clone(std::move(name));
}

void Log::Debug(std::string_view message, std::initializer_list<Field> fields) const {
  core_->Write(LogLevel::kDebug, message, fields);
}

void Log::Info(std::string_view message, std::initializer_list<Field> fields) const {
  core_->Write(LogLevel::kInfo, message, fields);
}

void Log::Warning(std::string_view message, std::initializer_list<Field> fields) const {
  core_->Write(LogLevel::kWarning, message, fields);
}

void Log::Error(std::string_view message, std::initializer_list<Field> fields) const {
  core_->Write(LogLevel::kError, message, fields);
}

}  // namespace ddprun
