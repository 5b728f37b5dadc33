#include "launcher/output/worker_stream.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "launcher/output/pty.h"

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Time that an unfinished line waits for its end. Longer if the console is a file or pipe, because
// no user waits for a prompt there, and a line that another worker's line cuts does more harm.
constexpr milliseconds kQuietOnTerminal{100};
constexpr milliseconds kQuietElsewhere{1000};
// The pause after a small piece, so that not each line of a worker wakes this process. The pipe has
// room for the output of this time.
constexpr milliseconds kPause{2};
// The pause while small pieces come soon after each other. On a machine whose cores all belong to
// ranks, a wake of this process costs a rank up to 0.3 ms. Not for a terminal, whose room is small.
constexpr milliseconds kSteadyPause{20};
constexpr size_t kSmallPiece = 16 << 10;
// Limit for one turn of the loop, which also serves other workers and signals.
constexpr size_t kTurnBytes = 256 << 10;
// More than any pipe holds.
constexpr size_t kFinishBytes = 4 << 20;

}  // namespace

std::shared_ptr<WorkerStream> WorkerStream::Start(asio::io_context& io,
                                                  UniqueFd read_end,
                                                  StreamSinks sinks) {
  std::shared_ptr<WorkerStream> stream(new WorkerStream(io, std::move(read_end), std::move(sinks)));
  stream->Read();
  return stream;
}

WorkerStream::WorkerStream(asio::io_context& io, UniqueFd read_end, StreamSinks sinks)
    : source_(io, read_end.release()),
      is_terminal_(::isatty(source_.native_handle()) == 1),
      sinks_(std::move(sinks)),
      label_(sinks_.label),
      pause_(io),
      quiet_(io) {
  source_.non_blocking(true);
}

WorkerStream::~WorkerStream() {
  if (sinks_.console != nullptr) sinks_.console->Forget(this);
}

void WorkerStream::Read() {
  source_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const asio::error_code& error) {
                       const auto self = weak.lock();
                       if (self != nullptr && !error) self->OnReadable();
                     });
}

void WorkerStream::OnReadable() {
  const steady_clock::time_point now = steady_clock::now();
  // Only now, because lines that come slowly would make a timer wake this process for nothing.
  if (now < next_read_) return ReadAt(next_read_);
  const bool soon = now - last_read_ < kSteadyPause;
  const size_t taken = Take(kTurnBytes);
  if (!source_.is_open()) return;
  if (lines_.has_partial()) ShowPartialLater();
  const bool small = taken < kSmallPiece;
  if (small) next_read_ = now + kPause;
  steady_ = small && taken > 0 && !is_terminal_ && (steady_ || soon);
  if (ResumeWhenRoom()) return;
  if (steady_) return ReadAt(now + kSteadyPause);
  Read();
}

void WorkerStream::ReadAt(steady_clock::time_point time) {
  pause_.expires_at(time);
  pause_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (self != nullptr && !error) self->OnReadable();
  });
}

bool WorkerStream::ResumeWhenRoom() {
  const auto resume = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Read();
  };
  if (sinks_.console != nullptr && sinks_.console->IsFull()) {
    sinks_.console->WhenRoom(resume);
    return true;
  }
  for (const LogFile* file : {sinks_.copy ? &*sinks_.copy : nullptr, sinks_.filtered_log}) {
    if (file == nullptr || !file->writer().IsFull()) continue;
    file->writer().WhenRoom(resume);
    return true;
  }
  return false;
}

size_t WorkerStream::Take(size_t limit) {
  std::array<char, 64 << 10> buffer;
  size_t taken = 0;
  while (source_.is_open() && taken < limit) {
    const ssize_t got = ::read(source_.native_handle(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    // A terminal returns EIO if no process holds its other end.
    if (got <= 0) {
      End();
      break;
    }
    taken += static_cast<size_t>(got);
    Pass({buffer.data(), static_cast<size_t>(got)});
  }
  if (taken > 0) last_read_ = steady_clock::now();
  return taken;
}

void WorkerStream::Pass(std::string_view bytes) {
  bytes_seen_ += bytes.size();
  tail_.Add(bytes);
  if (sinks_.copy) sinks_.copy->Write(bytes);
  if (sinks_.filter) sinks_.filtered_log->Write(sinks_.filter->Feed(bytes));
  if (sinks_.console != nullptr) Show(lines_.Feed(bytes));
  if (sinks_.ends_with_console && sinks_.console->closed()) source_.close();
}

void WorkerStream::Show(std::string_view bytes) {
  if (bytes.empty()) return;
  const bool continues = sinks_.console->ContinuesLineOf(this);
  if (!continues) label_.BeginAnew();
  std::string text = label_.Put(bytes);
  // Another worker may have written between this bar's '\r' and its text.
  if (!continues && is_bar_ && sinks_.console->is_terminal()) text.insert(0, "\r");
  const size_t line = bytes.rfind('\n') + 1;
  is_bar_ = (is_bar_ && line == 0) || bytes.find('\r', line) != std::string_view::npos;
  sinks_.console->Write(this, text);
}

void WorkerStream::End() {
  source_.close();
  if (sinks_.filter) sinks_.filtered_log->Write(sinks_.filter->Finish());
  if (sinks_.console != nullptr) Show(lines_.TakePartial());
}

void WorkerStream::ShowPartialLater() {
  if (std::exchange(quiet_pending_, true)) return;
  const milliseconds quiet = sinks_.console->is_terminal() ? kQuietOnTerminal : kQuietElsewhere;
  quiet_.expires_at(last_read_ + quiet);
  quiet_.async_wait([weak = weak_from_this(), quiet](const asio::error_code& error) {
    const auto self = weak.lock();
    if (self == nullptr || error) return;
    self->quiet_pending_ = false;
    if (!self->lines_.has_partial()) return;
    if (steady_clock::now() - self->last_read_ < quiet) return self->ShowPartialLater();
    self->Show(self->lines_.TakePartial());
  });
}

void WorkerStream::FollowTerminal() {
  if (sinks_.console == nullptr || !source_.is_open()) return;
  // Fails for a pipe, which has no size.
  (void)FollowSize(source_.native_handle(), sinks_.console->fd(), sinks_.label);
}

void WorkerStream::CatchUp() {
  Take(kFinishBytes);
}

void WorkerStream::Finish() {
  Take(kFinishBytes);
  if (source_.is_open()) End();
}

std::vector<std::string> WorkerStream::LastLines() const {
  return launcher::LastLines(tail_.bytes(), tail_.cut(), kKeptLines);
}

}  // namespace ddprun::launcher
