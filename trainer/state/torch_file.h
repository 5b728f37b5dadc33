// Files of torch.save that hold a state dict: a zip archive with a pickle, which names the tensors,
// and one record for each storage.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/state/safetensors.h"
#include "trainer/state/torch_pickle.h"
#include "trainer/state/weights_bytes.h"

namespace ddprun::trainer {

// An open file whose pickle was read and whose tensors were found to lie within their storages.
// Immutable: any thread. Nothing in it is executed.
class TorchFile {
 public:
  struct Entry {
    at::ScalarType dtype;
    PickledTensor view;
    int64_t begin = 0;   // of the storage, in bytes from the start of the file
    uint32_t crc32 = 0;  // of the storage; 0: not known
  };

  // Whether the first bytes are those of torch.save's zip archive, or of what it wrote before 1.6.
  static bool IsTorchFile(const std::string& path);

  // Throws Failure when the file cannot be read, is damaged, or holds more than a state dict.
  explicit TorchFile(const std::string& path);

  const std::string& path() const { return bytes_.path(); }
  // Tensors by name; names in dicts within the dict are joined by dots.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // What else the dict holds: numbers and texts.
  const std::map<std::string, PickledValue>& values() const { return values_; }
  // Names at the top of the dict that hold dicts or lists.
  const std::vector<std::string>& sections() const { return sections_; }

  // Reads no more of a storage than the tensor covers. Throws Failure; where the tensor covers all
  // of its storage, also for bytes that have changed since they were written.
  at::Tensor Get(const std::string& name) const;

 private:
  void AddTensor(const std::string& name, const PickledTensor& tensor, class TorchArchive& archive);

  WeightsBytes bytes_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, PickledValue> values_;
  std::vector<std::string> sections_;
};

// Writes what torch.load(path, weights_only=True) reads as a flat dict: first the tensors, then the
// values. One tensor in memory at a time; the file is there whole or not at all. Throws Failure.
void WriteTorchFile(const std::string& path,
                    const std::vector<LazyTensor>& tensors,
                    const std::map<std::string, PickledValue>& values = {});

}  // namespace ddprun::trainer
