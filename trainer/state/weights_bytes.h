// The bytes of a weights file of any format. They are read, not mapped: a file that another program
// cuts short is then an error and not the end of the process (SIGBUS).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/failure.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

// Immutable: any thread. Copies share the open file.
class WeightsBytes {
 public:
  // `format` for messages: "safetensors file". Throws Failure when there is no such regular file.
  WeightsBytes(std::string path, const char* format);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // `offset` from the start of the file. Throws Failure when it has become shorter.
  void Read(void* target, size_t bytes, int64_t offset) const;
  // "... is no valid <format>: <what>."
  Failure Broken(const std::string& what, const std::string& hint = "") const;

 private:
  std::string path_;
  const char* format_;
  std::shared_ptr<const UniqueFd> fd_;
  int64_t size_ = 0;
};

}  // namespace ddprun::trainer
