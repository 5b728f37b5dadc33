// A folder of its own for each test, removed with the object.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ddprun::trainer {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = testing::TempDir() + "/ddprun-test-XXXXXX";
    path_ = std::filesystem::path(::mkdtemp(name.data())).lexically_normal();
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string Path(std::string_view name = "") const { return (path_ / name).string(); }

  // Writes a file, making the folders above it; returns its path.
  std::string Write(std::string_view name, std::string_view text) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace ddprun::trainer
