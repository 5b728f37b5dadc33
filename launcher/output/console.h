// Our own standard output and standard error.
#pragma once

#include <functional>
#include <optional>

#include <asio/io_context.hpp>

#include "launcher/output/stream_writer.h"

namespace ddprun::launcher {

// When both are the same file, terminal or pipe, both have one writer, so that their lines do not
// mix either. Loop thread only.
class Console {
 public:
  // The descriptors stay the caller's.
  Console(asio::io_context& io, int out_fd, int err_fd);

  StreamWriter& out() { return out_ ? *out_ : err_; }
  StreamWriter& err() { return err_; }
  // Calls `done` once everything has been written to both.
  void WhenEmpty(std::function<void()> done);

 private:
  StreamWriter err_;
  std::optional<StreamWriter> out_;  // absent: the same as err_
};

}  // namespace ddprun::launcher
