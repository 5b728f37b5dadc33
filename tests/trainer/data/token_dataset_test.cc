#include "trainer/data/token_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/data_files.h"
#include "trainer/data/loader.h"
#include "trainer/data/text_dataset.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return Bytes(header);
}

std::vector<int64_t> Values(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<int64_t>();
  return {data, data + tensor.numel()};
}

class TokenFiles : public testing::Test {
 protected:
  std::string What(const std::string& contents, int64_t vocab_size = 0) const {
    const std::string path = scratch_.Write("bad.bin", contents);
    try {
      const TokenDataset data({.files = {path}, .sequence_length = 2, .vocab_size = vocab_size});
      data.Get(std::vector<int64_t>{0});
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return "";
  }

  const ScratchFolder scratch_;
};

// Also where the first ids look like a header.
TEST_F(TokenFiles, OfBareIdsAreAsWideAsIsSaid) {
  const std::string bytes = Header(20240801, 7, 900);
  scratch_.Write("a.bin", bytes);
  const auto tokens = [&](int bytes_per_token) {
    return TokenDataset({.files = {scratch_.Path("a.bin")},
                         .bytes_per_token = bytes_per_token,
                         .sequence_length = 2})
        .tokens();
  };
  EXPECT_EQ(tokens(4), 256);
  EXPECT_EQ(tokens(2), 512);
}

TEST_F(TokenFiles, OfAllKindsFollowEachOther) {
  scratch_.Write("a.bin", Bytes<uint16_t>({1, 65535, 3}));
  scratch_.Write("b.bin", Header(20240520, 1, 2) + Bytes<uint16_t>({4, 5}));
  scratch_.Write("c.bin", Header(20240801, 7, 2) + Bytes<uint32_t>({100000, 7}));
  const TokenDataset data({.files = ExpandFiles({scratch_.Path("*.bin")}), .sequence_length = 3});
  EXPECT_EQ(data.tokens(), 7);
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.tokens_per_sample(), 3);
  const Batch batch = data.Get(std::vector<int64_t>{1, 0});
  EXPECT_THAT(Values(batch.inputs), ElementsAre(4, 5, 100000, 1, 65535, 3));
  EXPECT_THAT(Values(batch.targets), ElementsAre(5, 100000, 7, 65535, 3, 4));
  EXPECT_EQ(batch.predictions, 6);
}

TEST_F(TokenFiles, ThatAreNoneAreRefused) {
  EXPECT_THAT(What("abc"), HasSubstr("an odd number of bytes (3)"));
  EXPECT_THAT(What(""), HasSubstr("has 0 tokens; one sample needs 3"));
  EXPECT_THAT(What("abcd"), HasSubstr("has 2 tokens; one sample needs 3"));
  EXPECT_THAT(What(Header(20240520, 2, 0)), HasSubstr("has version 2; version 1 is read here."));
  EXPECT_THAT(What(Header(20240520, 1, 9) + "abcd"), HasSubstr("announces 9 tokens, and 4 bytes"));
  EXPECT_THAT(What(Header(20240520, 1, -1) + "abcd"), HasSubstr("announces -1 tokens"));
  EXPECT_THAT(What(Header(20240801, 7, 1) + "abcdef"), HasSubstr("6 bytes follow"));
  EXPECT_THAT(What(Bytes<uint16_t>({1, 2, 50}), 50), HasSubstr("Token 2 of "));
  EXPECT_EQ(What(Bytes<uint16_t>({1, 2, 50}), 51), "");
}

TEST_F(TokenFiles, ThatShrinkAreAnErrorAndNoSignal) {
  const std::string tokens = scratch_.Write("a.bin", std::string(1 << 16, 'x'));
  const std::string text = scratch_.Write("a.txt", std::string(1 << 16, 'x'));
  const TokenDataset token_data({.files = {tokens}, .sequence_length = 64});
  const TextDataset text_data({.files = {text}, .sequence_length = 64});
  for (const Dataset* data :
       {static_cast<const Dataset*>(&token_data), static_cast<const Dataset*>(&text_data)}) {
    std::vector<int64_t> last = {data->size() - 1};
    EXPECT_NO_THROW(data->Get(last));
  }
  std::filesystem::resize_file(tokens, 4096);
  std::filesystem::resize_file(text, 4096);
  for (const Dataset* data :
       {static_cast<const Dataset*>(&token_data), static_cast<const Dataset*>(&text_data)}) {
    EXPECT_NO_THROW(data->Get(std::vector<int64_t>{0}));
    // In the loader's thread as well, which blocks other signals.
    Loader loader(*data, {0, data->size() - 1}, {.batch_size = 1});
    EXPECT_TRUE(loader.Next().has_value());
    try {
      loader.Next();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().title, "DATA FILE CANNOT BE READ");
      EXPECT_THAT(failure.error().what, HasSubstr("it has become shorter since the run began"));
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
