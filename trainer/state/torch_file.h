// Files of torch.save with a state dict: a zip archive with a pickle, which names the tensors, and
// one record for each storage.
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

// An open file. Its pickle was read, and its tensors lie within their storages. No code in it is
// executed. Immutable: any thread.
class TorchFile {
 public:
  struct Entry {
    at::ScalarType dtype;
    PickledTensor view;
    int64_t begin = 0;   // of the storage, in bytes from the start of the file
    uint32_t crc32 = 0;  // of the storage; 0: not known
  };

  // Returns whether the file begins like torch.save's zip archive, or like its format before 1.6.
  static bool IsTorchFile(const std::string& path);

  // Throws Failure if the file cannot be read, is damaged, or is not a state dict.
  explicit TorchFile(const std::string& path);

  const std::string& path() const { return bytes_.path(); }
  // Returns the tensors by name; dots join the names of nested dicts.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // Returns the numbers and texts of the dict, by name.
  const std::map<std::string, PickledValue>& values() const { return values_; }
  // Returns the names at the top of the dict whose values are dicts or lists.
  const std::vector<std::string>& sections() const { return sections_; }

  // Reads only the tensor's part of its storage. Throws Failure, also for changed bytes (CRC-32) if
  // the tensor covers its whole storage.
  at::Tensor Get(const std::string& name) const;

 private:
  void AddTensor(const std::string& name, const PickledTensor& tensor, class TorchArchive& archive);

  WeightsBytes bytes_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, PickledValue> values_;
  std::vector<std::string> sections_;
};

// Writes a flat dict, first the tensors, then the values, for torch.load(path, weights_only=True).
// Holds one tensor in memory at a time. Writes the whole file or none. Throws Failure.
void WriteTorchFile(const std::string& path,
                    const std::vector<LazyTensor>& tensors,
                    const std::map<std::string, PickledValue>& values = {});

}  // namespace ddprun::trainer
