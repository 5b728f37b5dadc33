// Tokenizes text files into one token file, on several threads, for `ddp-trainer tokenize`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/text/token_file.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

struct TokenizeOptions {
  std::vector<std::string> files;
  // By file. true: JSON lines, in which each row is a document; false: the whole file is one.
  std::vector<bool> is_rows;
  std::string json_key = "text";  // the key of a row's text
  int32_t separator = -1;         // id after each document; -1: none
  bool skip_bad_rows = false;     // false: the first one is an error
  // The hint of an error about a bad row. The caller may name its own options in it.
  std::string bad_row_hint =
      "Name another key with --json-key, correct the row, or skip such rows with "
      "--on-bad-row=skip.";
  std::string output;
  int output_fd = -1;  // >= 0: an empty file to write into, instead of `output`
  TokenFileFormat format = TokenFileFormat::kLlmC;
  int threads = 1;
};

struct TokenizeProgress {
  int64_t bytes = 0;  // read, before decompression
  int64_t documents = 0;
  int64_t tokens = 0;  // written, including separators
  int64_t bad_rows = 0;
  int bytes_per_token = 0;
};

// Tokenizes the files. Writes documents in the order of files and rows, for any number of threads.
// Calls `report` after each piece of about 1 MiB, from one thread at a time. Throws Failure; the
// output is then as before.
TokenizeProgress TokenizeFiles(const Tokenizer& tokenizer,
                               const TokenizeOptions& options,
                               const std::function<void(const TokenizeProgress&)>& report);

}  // namespace ddprun::trainer
