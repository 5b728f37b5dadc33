// The safetensors files of one model, as if they were one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/state/safetensors.h"

namespace ddprun::trainer {

// Immutable: any thread.
class WeightsFiles {
 public:
  // `path`: a safetensors file, or a folder with model.safetensors or with the shards that its
  // model.safetensors.index.json names. Throws Failure.
  explicit WeightsFiles(const std::string& path);

  // The file, or the folder's index.
  const std::string& path() const { return path_; }
  // All tensors, by name.
  const std::map<std::string, SafetensorsFile::Entry>& entries() const { return entries_; }
  // As SafetensorsFile::ReadInto.
  void ReadInto(const std::string& name, at::Tensor& target) const;

 private:
  void OpenShards();
  void Add(SafetensorsFile file);

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, SafetensorsFile::Entry> entries_;
  std::map<std::string, size_t> file_of_;  // index in files_
};

}  // namespace ddprun::trainer
