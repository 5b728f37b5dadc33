// The weights files of one model, as if they were one.
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
    std::function<void(at::Tensor& target)> read_into;  // of that shape; throws Failure
  };

  // `path`: a safetensors file, one of torch.save, a checkpoint of a run, or a folder with
  // model.safetensors or pytorch_model.bin, or with the shards that an index beside them names.
  // `verify`: of a checkpoint. Throws Failure.
  WeightsFiles(const std::string& path, Verify verify);

  // The file, or the folder's index.
  const std::string& path() const { return path_; }
  // All tensors, by name.
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  void OpenShards();
  std::vector<std::string> AddFile(const std::string& path);

  std::string path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace ddprun::trainer
