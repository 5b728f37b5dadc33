// The weights files of one model, read as if they were one file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

namespace ddprun::trainer {

// Immutable: any thread.
class WeightsFiles {
 public:
  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    std::function<void(at::Tensor& target)> read_into;  // of this shape; throws Failure
  };

  // `path`: a safetensors file, a file of torch.save, a checkpoint of a run, or a folder with
  // model.safetensors or pytorch_model.bin, or with the shards of an index. `verify`: for a
  // checkpoint. Throws Failure.
  WeightsFiles(const std::string& path, Verify verify);

  // Returns the path of the file, or of the folder's index.
  const std::string& path() const { return path_; }
  // Returns all tensors, by name.
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  void OpenShards();
  std::vector<std::string> AddFile(const std::string& path);

  std::string path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace ddprun::trainer
