#include "launcher/output/file_writer.h"

#include <signal.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>

#include "base/atomic_file.h"

namespace ddprun::launcher {

// Outlives the FileWriter if the disk stalls at the end.
struct FileWriter::Shared {
  static constexpr size_t kFullBytes = 1 << 20;
  struct Piece {
    std::shared_ptr<const UniqueFd> file;
    std::string bytes;
    Failed failed;
  };

  std::mutex mutex;
  // Guarded by `mutex`:
  std::condition_variable more;
  std::deque<Piece> queue;
  size_t unwritten = 0;              // bytes in the queue, and bytes that are being written
  std::function<void()> on_written;  // empty after the FileWriter's end
  asio::io_context* io;              // valid as long as on_written is not empty
  bool ended = false;
  // Used by the loop's thread only. Keeps the loop running while bytes are unwritten.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
};

FileWriter::FileWriter(asio::io_context& io) : shared_(std::make_shared<Shared>()) {
  shared_->io = &io;
  shared_->on_written = [this] { OnWritten(); };
}

FileWriter::~FileWriter() {
  shared_->work.reset();
  bool idle = true;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->on_written = nullptr;
    shared_->ended = true;
    shared_->queue.clear();
    idle = shared_->unwritten == 0;
  }
  shared_->more.notify_one();
  if (!thread_.joinable()) return;
  // A write that stalls cannot be cancelled; the end of the process ends its thread.
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void FileWriter::Begin() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([shared = shared_] { Run(shared); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void FileWriter::Write(std::shared_ptr<const UniqueFd> file,
                       std::string_view bytes,
                       Failed failed) {
  if (bytes.empty()) return;
  if (!thread_.joinable()) Begin();
  if (!shared_->work) shared_->work.emplace(shared_->io->get_executor());
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->unwritten += bytes.size();
    shared_->queue.push_back({std::move(file), std::string(bytes), std::move(failed)});
  }
  shared_->more.notify_one();
}

void FileWriter::Run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->more.wait(lock, [&] { return shared->ended || !shared->queue.empty(); });
    if (shared->ended) return;
    const std::deque<Shared::Piece> pieces = std::exchange(shared->queue, {});
    for (const Shared::Piece& piece : pieces) {
      lock.unlock();
      const int error = WriteBytes(piece.file->get(), piece.bytes);
      lock.lock();
      shared->unwritten -= piece.bytes.size();
      if (shared->on_written == nullptr) return;
      if (error != 0) asio::post(*shared->io, [failed = piece.failed, error] { failed(error); });
    }
    asio::post(*shared->io, [weak = std::weak_ptr(shared)] {
      // Needs no lock, because only the loop's thread changes on_written.
      const auto self = weak.lock();
      if (self != nullptr && self->on_written != nullptr) self->on_written();
    });
  }
}

size_t FileWriter::CountUnwritten() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->unwritten;
}

bool FileWriter::IsFull() const {
  return CountUnwritten() > Shared::kFullBytes;
}

void FileWriter::OnWritten() {
  const size_t unwritten = CountUnwritten();
  if (unwritten == 0) shared_->work.reset();
  if (unwritten <= Shared::kFullBytes) {
    for (const auto& resume : std::exchange(waiting_, {})) resume();
  }
  if (when_empty_ && CountUnwritten() == 0) std::exchange(when_empty_, nullptr)();
}

void FileWriter::WhenEmpty(std::function<void()> done) {
  if (CountUnwritten() == 0) return done();
  when_empty_ = std::move(done);
}

}  // namespace ddprun::launcher
