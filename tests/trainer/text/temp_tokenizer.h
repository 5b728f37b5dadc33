// Tokenizer folders for tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ddprun::trainer {

// A folder that goes with its object.
class TempTokenizer {
 public:
  TempTokenizer() {
    std::string name = (std::filesystem::temp_directory_path() / "tokenizer.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempTokenizer() { std::filesystem::remove_all(path_); }
  TempTokenizer(const TempTokenizer&) = delete;
  TempTokenizer& operator=(const TempTokenizer&) = delete;

  std::string Write(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// A WordPiece vocabulary of ids 0 to 14.
constexpr std::string_view kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nquick\n##er\n##s\ndog\n.\n,\nun\n##aff\n##able\n";

// GPT-2's kind of vocabulary: a b c d space (as it is spelt) ab cd abcd and a special token.
constexpr std::string_view kBytePairVocabulary =
    "{\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"\u0120\": 4, \"ab\": 5, \"cd\": 6, \"abcd\": 7, "
    "\"<|endoftext|>\": 8}";
constexpr std::string_view kMerges = "#version: 0.2\na b\nc d\nab cd\n";

}  // namespace ddprun::trainer
