#include "base/last_words.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/crash_stack.h"
#include "base/env.h"
#include "base/failure.h"
#include "base/terminal.h"
#include "base/untrusted_json.h"

namespace ddprun {

namespace {

std::string WithoutFrames(std::string text) {
  const size_t frames = text.find("\nframe #");
  if (frames == std::string::npos) return text;
  text.erase(frames);
  constexpr std::string_view kHead = " (most recent call first):";
  if (text.ends_with(kHead)) text.erase(text.size() - kHead.size());
  return text;
}

#ifdef __GLIBCXX__
const std::terminate_handler default_handler = __gnu_cxx::__verbose_terminate_handler;
#else  // libc++ has no public name for its own.
const std::terminate_handler default_handler = std::get_terminate();
#endif
std::terminate_handler handler_before = nullptr;

[[noreturn]] void OnTerminate() {
  static std::atomic<bool> entered = false;
  if (entered.exchange(true) || std::current_exception() == nullptr) handler_before();
  try {
    throw;
  } catch (const Failure& failure) {
    const int status = ReportFailure(failure.error(), Environment::OfProcess());
    std::fflush(stdout);
    ::_exit(status);
  } catch (...) {
    ReportFailure(uncaught_error(), Environment::OfProcess());
  }
  std::abort();
}

using nlohmann::json;

// The timestamp is a number in one form and a string in the other.
int64_t Seconds(const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_string()) return ParseInt(value.get<std::string>()).value_or(0);
  return 0;
}

constexpr size_t kMaxName = 40;

struct Crash {
  int signal;
  const char* name;
};

// SIGABRT is also the signal by which the launcher ends a worker that hangs.
constexpr Crash kCrashes[] = {{SIGABRT, "SIGABRT"},
                              {SIGBUS, "SIGBUS"},
                              {SIGFPE, "SIGFPE"},
                              {SIGILL, "SIGILL"},
                              {SIGSEGV, "SIGSEGV"}};

char process_name[kMaxName + 1] = "this process";

// If the stack is unreadable, the signal comes again and ends the process (SA_RESETHAND).
void OnCrash(int signal) {
  for (const Crash& crash : kCrashes) {
    if (crash.signal != signal) continue;
    char title[kMaxName + 40] = "Stack of ";
    const char* const parts[] = {process_name, " at ", crash.name};
    for (const char* part : parts) std::strcat(title, part);
    WriteStack(title);
  }
  ::raise(signal);  // ends the process, because of SA_RESETHAND
}

}  // namespace

Error (*uncaught_error)() = &CurrentError;

Error CurrentError() {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.error();
  } catch (...) {
    return Error{.title = "UNEXPECTED ERROR", .what = ExceptionText(), .page = "unexpected-error"};
  }
}

std::string ExceptionText() {
  try {
    throw;
  } catch (const std::exception& exception) {
    return WithoutFrames(exception.what());
  } catch (...) {
    const char* const name = abi::__cxa_current_exception_type()->name();
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(name, nullptr, nullptr, nullptr), &std::free);
    return std::string("no std::exception, but an object of type ") + (text ? text.get() : name);
  }
}

int ReportFailure(const Error& error, const Environment& environment, bool on_stderr) {
  const std::string text = Render(error);
  if (on_stderr) std::fputs(RenderForTerminal(error, environment).c_str(), stderr);
  const std::string path = environment.GetOr("TORCHELASTIC_ERROR_FILE", "");
  if (!path.empty()) {
    const WorkerError last_words{
        .message = text, .callstack = "", .timestamp_s = std::time(nullptr)};
    const Status written = WriteErrorFile(path, last_words);
    if (!written.ok()) std::fputs(Render(written.error()).c_str(), stderr);
  }
  return ExitStatus(error.code);
}

void ReportUncaughtExceptions() {
  const std::terminate_handler before = std::get_terminate();
  if (before != default_handler && before != std::abort) return;
  handler_before = before;
  std::set_terminate(OnTerminate);
}

Status WriteErrorFile(const std::string& path, const WorkerError& error) {
  const json extra = {{"py_callstack", error.callstack},
                      {"timestamp", std::to_string(error.timestamp_s)}};
  const json document = {{"message", {{"message", error.message}, {"extraInfo", extra}}}};
  // The message may have any bytes, but JSON only UTF-8.
  return WriteFileAtomically(path, document.dump(-1, ' ', false, json::error_handler_t::replace),
                             Durability::kUnsynced);
}

std::optional<WorkerError> ReadErrorFile(const std::string& path) {
  const std::optional<std::string> text = ReadUntrustedFile(path);
  if (!text) return std::nullopt;
  const json document = ParseUntrustedJson(*text);
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

void PrintStackOnCrash() {
  // The first call loads a library, which a signal handler must not do.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  struct sigaction action = {};
  action.sa_handler = OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const Crash& crash : kCrashes) {
    struct sigaction before = {};
    ::sigaction(crash.signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) ::sigaction(crash.signal, &action, nullptr);
  }
}

void NameInStacks(std::string_view name) {
  name = name.substr(0, kMaxName);
  std::memcpy(process_name, name.data(), name.size());
  process_name[name.size()] = '\0';
}

}  // namespace ddprun
