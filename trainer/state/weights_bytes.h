// Reads the bytes of a weights file of any format. The file is not mapped, so that if another
// program shortens it, the result is an error instead of SIGBUS.
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
  // `format` is for messages: "safetensors file". Throws Failure if there is no such regular file.
  WeightsBytes(std::string path, const char* format);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Reads `bytes` from `offset` in the file. Throws Failure if the file has become shorter.
  void Read(void* target, size_t bytes, int64_t offset) const;
  // Returns the error "... is no valid <format>: <what>."
  Failure Broken(const std::string& what, const std::string& hint = "") const;

 private:
  std::string path_;
  const char* format_;
  std::shared_ptr<const UniqueFd> fd_;
  int64_t size_ = 0;
};

}  // namespace ddprun::trainer
