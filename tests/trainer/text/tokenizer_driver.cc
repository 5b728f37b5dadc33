// Encodes and decodes what a test written in another language sends: tokenizer_driver FOLDER.
// Requests on stdin: 'E' size bytes; 'D' count ids; 'P' max_length size bytes size bytes.
// Answers on stdout: E: count ids; D: size bytes; P: second_begin count ids. All numbers are
// int32, little endian.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/failure.h"
#include "trainer/text/encode_pair.h"
#include "trainer/text/tokenizer.h"

namespace {

using ddprun::trainer::Tokenizer;

bool ReadAll(void* to, size_t bytes) {
  return std::fread(to, 1, bytes, stdin) == bytes;
}

int32_t ReadNumber() {
  int32_t number = 0;
  if (!ReadAll(&number, sizeof(number))) std::exit(3);
  return number;
}

std::string ReadText() {
  std::string text(ReadNumber(), '\0');
  if (!ReadAll(text.data(), text.size())) std::exit(3);
  return text;
}

void WriteNumber(int64_t number) {
  const auto value = static_cast<int32_t>(number);
  std::fwrite(&value, sizeof(value), 1, stdout);
}

void WriteIds(const std::vector<int32_t>& ids) {
  WriteNumber(static_cast<int64_t>(ids.size()));
  std::fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
}

void Answer(const Tokenizer& tokenizer, int request) {
  if (request == 'E') {
    std::vector<int32_t> ids;
    tokenizer.Encode(ReadText(), ids);
    WriteIds(ids);
  } else if (request == 'D') {
    std::vector<int32_t> ids(ReadNumber());
    for (int32_t& id : ids) id = ReadNumber();
    const std::string text = tokenizer.Decode(ids);
    WriteNumber(static_cast<int64_t>(text.size()));
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    const int32_t max_length = ReadNumber();
    const std::string first = ReadText();
    const std::string second = ReadText();
    const auto pair = ddprun::trainer::EncodePair(tokenizer, first, second, max_length);
    WriteNumber(pair.second_begin);
    WriteIds(pair.ids);
  }
}

}  // namespace

int main(int, char** argv) {
  try {
    const auto tokenizer = ddprun::trainer::LoadTokenizer(argv[1]);
    for (int request = std::getchar(); request != EOF; request = std::getchar()) {
      Answer(*tokenizer, request);
      std::fflush(stdout);
    }
    return 0;
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
