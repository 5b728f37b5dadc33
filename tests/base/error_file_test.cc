#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/last_words.h"

namespace ddprun {
namespace {

class ErrorFile : public testing::Test {
 protected:
  std::optional<WorkerError> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadErrorFile(path_);
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  std::string path_ = testing::TempDir() + "error_file_test." + std::to_string(::getpid());
};

TEST_F(ErrorFile, IsReadAsItWasWritten) {
  ASSERT_TRUE(WriteErrorFile(path_, {"ValueError: \"x\"\n", "trace", 1700000000}).ok());
  const auto error = ReadErrorFile(path_);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->message, "ValueError: \"x\"\n");
  EXPECT_EQ(error->callstack, "trace");
  EXPECT_EQ(error->timestamp_s, 1700000000);
}

TEST_F(ErrorFile, OfTorchElasticIsReadInBothForms) {
  const auto decorated = Read(
      R"({"message": {"message": "RuntimeError: a",
                      "extraInfo": {"py_callstack": "T", "timestamp": "12"}}})");
  ASSERT_TRUE(decorated.has_value());
  EXPECT_EQ(decorated->message, "RuntimeError: a");
  EXPECT_EQ(decorated->callstack, "T");
  EXPECT_EQ(decorated->timestamp_s, 12);
  const auto plain = Read(R"({"message": "text", "timestamp": 13})");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->message, "text");
  EXPECT_EQ(plain->timestamp_s, 13);
}

TEST_F(ErrorFile, ThatIsBrokenOrAbsentHidesNothing) {
  EXPECT_FALSE(ReadErrorFile(path_ + ".absent").has_value());
  for (const char* text : {"", "{", "[]", "{\"message\": {", "{\"message\": 3}", "\xff\xfe"}) {
    EXPECT_FALSE(Read(text).has_value()) << text;
  }
}

TEST_F(ErrorFile, CannotBeWrittenIntoAFolderThatIsNotThere) {
  EXPECT_FALSE(WriteErrorFile(path_ + ".absent/error.json", {"a", "", 0}).ok());
}

TEST_F(ErrorFile, TakesBytesThatAreNoUtf8) {
  ASSERT_TRUE(WriteErrorFile(path_, {"a\xff"
                                     "b",
                                     "", 0})
                  .ok());
  EXPECT_EQ(ReadErrorFile(path_)->message,
            "a\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace ddprun
