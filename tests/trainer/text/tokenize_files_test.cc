// Text files become one token file: whole, in order, whatever the number of threads.
#include "trainer/text/tokenize_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/failure.h"
#include "tests/trainer/text/temp_tokenizer.h"
#include "trainer/text/document_reader.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Number>
std::vector<int64_t> Numbers(std::string_view bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return {numbers.begin(), numbers.end()};
}

class TokenizeFilesTest : public testing::Test {
 protected:
  TokenizeFilesTest() {
    folder_.Write("vocab.json", kBytePairVocabulary);
    folder_.Write("merges.txt", kMerges);
    tokenizer_ = LoadTokenizer(folder_.path());
    options_.separator = 8;
  }

  TokenizeProgress Tokenize(std::vector<std::string> files, bool is_rows, int threads = 1) {
    TokenizeOptions options = options_;
    options.is_rows.assign(files.size(), is_rows);
    options.files = std::move(files);
    options.output = output();
    options.threads = threads;
    return TokenizeFiles(*tokenizer_, options, [](const TokenizeProgress&) {});
  }
  std::string output() const { return folder_.path() + "/out.bin"; }
  Error ErrorOf(std::vector<std::string> files, bool is_rows) {
    try {
      Tokenize(std::move(files), is_rows);
    } catch (const Failure& failure) {
      return failure.error();
    }
    return {};
  }

  TempTokenizer folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TokenizeOptions options_;
};

TEST_F(TokenizeFilesTest, WritesTheHeaderOfLlmC) {
  const TokenizeProgress result = Tokenize({folder_.Write("a.txt", "ab cd")}, false);
  EXPECT_EQ(result.tokens, 4);
  EXPECT_EQ(result.documents, 1);
  EXPECT_EQ(result.bytes, 5);
  const std::string bytes = ReadFile(output());
  ASSERT_EQ(bytes.size(), 1024 + 4 * 2U);
  const std::vector<int64_t> header = Numbers<int32_t>(bytes.substr(0, 1024));
  EXPECT_THAT(std::vector(header.begin(), header.begin() + 4), ElementsAre(20240520, 1, 4, 0));
  EXPECT_THAT(Numbers<uint16_t>(bytes.substr(1024)), ElementsAre(5, 4, 6, 8));
}

TEST_F(TokenizeFilesTest, WritesNanoGptsBareNumbers) {
  options_.format = TokenFileFormat::kNanoGpt;
  options_.separator = -1;
  Tokenize(
      {folder_.Write("a.txt", "ab"), folder_.Write("empty.txt", ""), folder_.Write("b.txt", "cd")},
      false);
  EXPECT_THAT(Numbers<uint16_t>(ReadFile(output())), ElementsAre(5, 6));
}

TEST_F(TokenizeFilesTest, WritesFourBytesWhereTheVocabularyNeedsThem) {
  TempTokenizer wide;
  wide.Write("vocab.json", R"({"a": 0, "b": 70000})");
  wide.Write("merges.txt", "");
  tokenizer_ = LoadTokenizer(wide.path());
  Tokenize({folder_.Write("a.txt", "ab")}, false);
  const std::string bytes = ReadFile(output());
  const std::vector<int64_t> header = Numbers<int32_t>(bytes.substr(0, 1024));
  EXPECT_THAT(std::vector(header.begin(), header.begin() + 3), ElementsAre(20240801, 7, 3));
  EXPECT_THAT(Numbers<uint32_t>(bytes.substr(1024)), ElementsAre(0, 70000, 8));
  options_.format = TokenFileFormat::kBare;
  EXPECT_EQ(Tokenize({folder_.Write("a.txt", "ab")}, false).bytes_per_token, 4);
  EXPECT_EQ(ReadFile(output()), bytes.substr(1024));
  options_.format = TokenFileFormat::kNanoGpt;
  EXPECT_EQ(ErrorOf({folder_.Write("a.txt", "ab")}, false).page, "format-too-narrow");
}

TEST_F(TokenizeFilesTest, TakesADocumentFromEachRow) {
  const std::string rows = folder_.Write(
      "a.jsonl", "{\"text\": \"ab\"}\n\n{\"id\": 5, \"text\": \"c\\u0064\"}\r\n{\"text\": \"\"}");
  const TokenizeProgress result = Tokenize({rows}, true);
  EXPECT_EQ(result.documents, 3);
  EXPECT_THAT(Numbers<uint16_t>(ReadFile(output()).substr(1024)), ElementsAre(5, 8, 6, 8, 8));
}

TEST_F(TokenizeFilesTest, NamesTheBadRowAndKeepsTheOldFile) {
  folder_.Write("out.bin", "old");
  for (const auto& [row, what] : std::vector<std::pair<std::string, std::string>>{
           {"{\"text\": \"ab\"", "no JSON"},
           {"[1]", "no JSON object"},
           {"{\"body\": \"ab\"}", "no \"text\", only \"body\""},
           {"{\"text\": 5}", "no string but a number."},
           {"{\"text\": [\"a\"]}", "no string but an array."},
           {"{\"text\": [{\"role\": \"user\"}]}", "data.format \"chat\""},
           {"{\"text\": \"\xFF\"}", "no JSON"}}) {
    const Error error =
        ErrorOf({folder_.Write("a.jsonl", "{\"text\": \"a\"}\n" + row + "\n")}, true);
    EXPECT_EQ(error.page, "bad-row");
    EXPECT_THAT(error.where, HasSubstr("a.jsonl:2"));
    EXPECT_THAT(error.what, HasSubstr(what));
  }
  EXPECT_EQ(ReadFile(output()), "old");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
}

TEST_F(TokenizeFilesTest, CountsBadRowsThatItPassesOver) {
  options_.skip_bad_rows = true;
  const TokenizeProgress result =
      Tokenize({folder_.Write("a.jsonl", "x\n{\"text\": \"ab\"}\n{}\n")}, true);
  EXPECT_EQ(result.bad_rows, 2);
  EXPECT_EQ(result.documents, 1);
}

TEST_F(TokenizeFilesTest, SaysWhatCannotBeReadOrWritten) {
  const std::string wide = folder_.Write("wide.txt", std::string("\xff\xfe"
                                                                 "a\0b\0",
                                                                 6));
  EXPECT_THAT(ErrorOf({wide}, false).what, HasSubstr("it is text in UTF-16"));
  EXPECT_EQ(ErrorOf({folder_.path() + "/none.txt"}, false).page, "unreadable-data-file");
  EXPECT_EQ(ErrorOf({folder_.path()}, false).page, "unreadable-data-file");
  std::filesystem::create_directory(output());
  EXPECT_EQ(ErrorOf({folder_.Write("a.txt", "ab")}, false).page, "cannot-write");
}

// Large enough to be cut into several pieces.
std::string LargeText() {
  std::string text;
  for (int i = 0; text.size() < (5U << 19); ++i) {
    text +=
        std::string(static_cast<size_t>(i % 50), "abcd "[i % 5]) + (i % 3 == 0 ? "\n" : " cd\n");
  }
  return text;
}

TEST_F(TokenizeFilesTest, GivesTheSameForAnyNumberOfThreadsAndForTheWholeAtOnce) {
  const std::string text = LargeText();
  const std::string file = folder_.Write("a.txt", text);
  const std::string second = folder_.Write("b.txt", "ab");
  EXPECT_EQ(Tokenize({file, second}, false, 1).documents, 2);
  const std::string one = ReadFile(output());
  EXPECT_EQ(Tokenize({file, second}, false, 3).documents, 2);
  EXPECT_EQ(ReadFile(output()), one);
  std::vector<int32_t> ids;
  tokenizer_->Encode(text, ids);
  ids.insert(ids.end(), {8, 5, 8});
  EXPECT_EQ(Numbers<uint16_t>(one.substr(1024)), std::vector<int64_t>(ids.begin(), ids.end()));
}

TEST_F(TokenizeFilesTest, ReportsTheFirstRowAmongSeveralThreads) {
  std::string rows;
  while (rows.size() < (3U << 20)) rows += "{\"text\": \"ab cd ab cd ab cd\"}\n";
  const std::string file = folder_.Write("a.jsonl", rows + "bad\n");
  TokenizeOptions options = options_;
  options.files = {file};
  options.is_rows = {true};
  options.output = output();
  options.threads = 3;
  EXPECT_THROW(TokenizeFiles(*tokenizer_, options, [](const TokenizeProgress&) {}), Failure);
  EXPECT_FALSE(std::filesystem::exists(output()));
}

TEST(DocumentReaderTest, CutsOnlyWhereALineBreakFollowsALetter) {
  TempTokenizer folder;
  DocumentReader reader({.files = {folder.Write("a.txt", "ab\n\ncd.\nef\n12\n34")},
                         .is_rows = {false},
                         .cut_text = true,
                         .piece_bytes = 5});
  std::vector<std::string> pieces;
  TextPiece piece;
  while (reader.Next(piece)) {
    pieces.push_back(piece.text);
    EXPECT_EQ(piece.ends_document, pieces.size() == 3);
  }
  EXPECT_THAT(pieces, ElementsAre("ab", "\n\ncd.\nef", "\n12\n34"));
}

}  // namespace
}  // namespace ddprun::trainer
