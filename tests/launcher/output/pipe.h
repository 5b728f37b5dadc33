// A pipe to look at what was written, or to write what a worker would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace ddprun::launcher {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

// Up to the end of the stream, or what is there if `fd` does not block.
inline std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

inline void WriteText(int fd, const std::string& text) {
  ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

// Everything that was written into the pipe.
inline std::string Written(Pipe& pipe) {
  pipe.write_end.reset();
  return ReadAll(pipe.read_end.get());
}

}  // namespace ddprun::launcher
