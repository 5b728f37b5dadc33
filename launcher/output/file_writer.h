// Writes files on a thread of its own, because a disk that stalls must not stop the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"

namespace ddprun::launcher {

// Use it on the loop thread only. Its thread starts with the first bytes and blocks all signals.
class FileWriter {
 public:
  using Failed = std::function<void(int error)>;

  explicit FileWriter(asio::io_context& io);
  // Drops what is not written yet, because it does not wait for the disk; see WhenEmpty().
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Writes in the order of the calls, and keeps `file` open until then. If it fails, drops the
  // bytes and calls `failed` from the loop.
  void Write(std::shared_ptr<const UniqueFd> file, std::string_view bytes, Failed failed);
  // Returns whether writers should pause. WhenRoom() calls `resume` when they may continue.
  bool IsFull() const;
  void WhenRoom(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }
  // Calls `done` when all has been written, maybe within this call. Until then the loop has work.
  void WhenEmpty(std::function<void()> done);

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);
  void Begin();
  void OnWritten();
  size_t CountUnwritten() const;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  std::vector<std::function<void()>> waiting_;
  std::function<void()> when_empty_;
};

}  // namespace ddprun::launcher
