// A folder of its own for one test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun::launcher {

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "launcher_test_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot create " << path_;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name, bool executable = false) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file) << "#!/bin/sh\n";
    if (executable) std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }

 private:
  std::string path_;
};

}  // namespace ddprun::launcher
