// Real files: missing, unreadable, with a byte order mark.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "trainer/config/read_config.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

class ConfigFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "config_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = fs::canonical(pattern).string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Put(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // The error's text with the scratch folder as FOLDER.
  std::string Complaint(const std::string& path) {
    const Result<Source> source = LoadConfigFile(path);
    if (source.has_value()) return "";
    std::string text = source.error().what + "\n" + source.error().hint;
    for (size_t at = text.find(folder_); at != std::string::npos; at = text.find(folder_)) {
      text.replace(at, folder_.size(), "FOLDER");
    }
    return text;
  }

  std::string folder_;
};

TEST_F(ConfigFileTest, AMissingFileNamesTheNearestOne) {
  Put("train.json", "{}");
  Put("notes.txt", "");
  EXPECT_EQ(Complaint(folder_ + "/trian.json"),
            "There is no file FOLDER/trian.json.\nDid you mean FOLDER/train.json?");
}

TEST_F(ConfigFileTest, AMissingFolderIsNamed) {
  EXPECT_EQ(Complaint(folder_ + "/none/train.json"), "There is no folder FOLDER/none.\n");
}

TEST_F(ConfigFileTest, AFolderIsNoConfig) {
  EXPECT_EQ(Complaint(folder_), "FOLDER is a folder.\nName the .json file inside it.");
}

TEST_F(ConfigFileTest, AnUnreadableFileSaysWhy) {
  const std::string path = Put("train.json", "{}");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  // root may read everything.
  if (::geteuid() == 0) {
    EXPECT_EQ(Complaint(path), "");
  } else {
    EXPECT_EQ(Complaint(path), "FOLDER/train.json cannot be opened: Permission denied.\n");
  }
}

TEST_F(ConfigFileTest, AHugeFileIsRefused) {
  const std::string path = Put("data.json", std::string(10 << 20, ' '));
  EXPECT_EQ(Complaint(path),
            "FOLDER/data.json is larger than 1 MiB: this is no config file.\n"
            "Name data files in data.train_files.");
}

TEST_F(ConfigFileTest, AByteOrderMarkIsSkipped) {
  const std::string path = Put("train.json", "\xEF\xBB\xBF{\"x\": 1}");
  const Result<Source> source = LoadConfigFile(path);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->text, "{\"x\": 1}");
}

TEST_F(ConfigFileTest, PathsStartAtTheFilesFolder) {
  const std::string path =
      Put("train.json", R"({"model": {"type": "gpt"}, "data": {"train_files": "../texts/*.txt"}})");
  const Result<Config> config = ReadConfig(path, {}, Environment());
  ASSERT_TRUE(config.has_value()) << Render(config.error());
  EXPECT_EQ(config->data.train_files.at(0),
            fs::path(folder_).parent_path().string() + "/texts/*.txt");
}

}  // namespace
}  // namespace ddprun::trainer
