// Text files into one token file, on several threads. What `ddp-trainer tokenize` does.
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
  // Of each file: JSON lines, where each row is a document; else the whole file is one.
  std::vector<bool> is_rows;
  std::string json_key = "text";  // what of a row is its text
  int32_t separator = -1;         // id after each document; -1: none
  bool skip_bad_rows = false;     // else the first one ends everything
  // What to do about one, in the words of who asks.
  std::string bad_row_hint =
      "Name another key with --json-key, mend the row, or pass over such rows with "
      "--on-bad-row=skip.";
  std::string output;
  int output_fd = -1;  // >= 0: an empty file to write into in place of one named `output`
  TokenFileFormat format = TokenFileFormat::kLlmC;
  int threads = 1;
};

struct TokenizeProgress {
  int64_t bytes = 0;  // read
  int64_t documents = 0;
  int64_t tokens = 0;  // written, separators included
  int64_t bad_rows = 0;
  int bytes_per_token = 0;
};

// Documents are written in the order of files and rows, whatever the number of threads. `report`
// is called after each piece of about 1 MiB, by one thread at a time. Throws Failure; the output
// is then as it was before.
TokenizeProgress TokenizeFiles(const Tokenizer& tokenizer,
                               const TokenizeOptions& options,
                               const std::function<void(const TokenizeProgress&)>& report);

}  // namespace ddprun::trainer
