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

  // Throws Failure when the file cannot be read or breaks the format; names the tensor concerned.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return bytes_.path(); }
  // By tensor name.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // "__metadata__" of the header.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // A CPU tensor of its own. Throws Failure when the file has no such tensor or has become shorter.
  at::Tensor Get(const std::string& name) const;
  // The same into a tensor of equal shape, converted to its dtype and device.
  void ReadInto(const std::string& name, at::Tensor& target) const;
  // Some of its bytes, from `skip` on. They must lie within the tensor.
  void ReadBytes(const std::string& name, int64_t skip, void* target, size_t bytes) const;

 private:
  const Entry& Find(const std::string& name) const;

  WeightsBytes bytes_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// As files say it: "F32". Throws Failure for one that the format does not know; `name` is whose.
std::string SafetensorsDtype(at::ScalarType dtype, const std::string& name);
// Nothing for a text that is none.
std::optional<at::ScalarType> ParseSafetensorsDtype(std::string_view text);

struct SafetensorsItem {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};
// What stands in a file before the bytes of its tensors, which follow in this order. Those of wider
// elements come first: that keeps all of them aligned. Throws Failure for a name that comes twice,
// and as SafetensorsDtype().
std::string SafetensorsHeader(const std::vector<SafetensorsItem>& items,
                              const std::map<std::string, std::string>& metadata = {});

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A tensor of a file to be written, which is read when its turn comes.
struct LazyTensor {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> read;  // of that dtype and shape
  std::string same_as = {};          // name of another tensor of the file that is the same memory
};

// Writes the file whole or not at all: temporary file, fsync, rename. Tensors may be on any
// device and of any layout. Throws Failure for a name that comes twice or a dtype that the format
// does not know, and when writing fails.
void WriteSafetensors(const std::string& path,
                      const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});
// The same with one tensor in memory at a time. `same_as` makes no difference: it is stored twice.
void WriteSafetensors(const std::string& path,
                      std::vector<LazyTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace ddprun::trainer
