#include "base/last_words.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>

#include "base/error_file.h"
#include "base/failure.h"

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
    ReportFailure(CurrentError(), Environment::OfProcess());
  }
  std::abort();
}

}  // namespace

Error CurrentError() {
  Error error{.code = Code::kFailed,
              .title = "UNEXPECTED ERROR",
              .where = "",
              .what = "Something was thrown that is no std::exception.",
              .hint = "",
              .page = "unexpected-error"};
  try {
    throw;
  } catch (const Failure& failure) {
    return failure.error();
  } catch (const std::exception& exception) {
    error.what = WithoutFrames(exception.what());
  } catch (...) {
  }
  return error;
}

int ReportFailure(const Error& error, const Environment& environment, bool on_stderr) {
  const std::string text = Render(error);
  if (on_stderr) std::fputs(text.c_str(), stderr);
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
  if (before != __gnu_cxx::__verbose_terminate_handler && before != std::abort) return;
  handler_before = before;
  std::set_terminate(OnTerminate);
}

}  // namespace ddprun
