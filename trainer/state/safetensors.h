// The safetensors format: u64 header length, JSON header (name -> dtype, shape, data_offsets),
// tensor bytes; all little endian.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/state/weights_bytes.h"

namespace ddprun::trainer {

// An open file whose header was checked. Immutable: any thread.
class SafetensorsFile {
 public:
  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    int64_t begin = 0;  // bytes from the start of the file
    int64_t end = 0;
  };

  // Throws Failure if the file cannot be read or breaks the format; the message names the tensor.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return bytes_.path(); }
  // Returns the tensors by name.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // Returns "__metadata__" of the header.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Returns a new CPU tensor. Throws Failure if the file has no such tensor or has become shorter.
  at::Tensor Get(const std::string& name) const;
  // Reads into a tensor of equal shape, and converts to its dtype and device. Throws like Get().
  void ReadInto(const std::string& name, at::Tensor& target) const;
  // Reads bytes of a tensor from its byte `skip` on. REQUIRES: they lie within the tensor.
  void ReadBytes(const std::string& name, int64_t skip, void* target, size_t bytes) const;

 private:
  const Entry& Find(const std::string& name) const;

  WeightsBytes bytes_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Returns the name of a dtype in the format: "F32". Throws Failure if the format has no such dtype;
// `name` is the tensor's.
std::string SafetensorsDtype(at::ScalarType dtype, const std::string& name);
// Returns nullopt for an unknown dtype.
std::optional<at::ScalarType> ParseSafetensorsDtype(std::string_view text);

struct SafetensorsItem {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};
// Returns the bytes before the first tensor. Tensors follow in the order of `items`; if wider
// elements come first, all are aligned. Throws Failure for duplicate names, and like
// SafetensorsDtype().
std::string SafetensorsHeader(const std::vector<SafetensorsItem>& items,
                              const std::map<std::string, std::string>& metadata = {});

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A tensor to write, which is read just before it is written.
struct LazyTensor {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> read;  // has this dtype and shape
  std::string same_as = {};          // another tensor of the file with the same memory
};

// Writes the whole file or none: temporary file, fsync, rename. Tensors may be on any device and
// have any layout. Throws Failure for duplicate names, for a dtype that the format does not have,
// and if writing fails.
void WriteSafetensors(const std::string& path,
                      const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});
// Holds one tensor in memory at a time. Ignores `same_as`: such a tensor is stored twice.
void WriteSafetensors(const std::string& path,
                      std::vector<LazyTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace ddprun::trainer
