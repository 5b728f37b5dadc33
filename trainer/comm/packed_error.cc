#include "trainer/comm/packed_error.h"

#include <algorithm>

namespace ddprun::trainer {

namespace {

char LetterOf(Code code) {
  return static_cast<char>('a' + static_cast<int>(code));
}

Code CodeOf(char letter) {
  return letter < 'a' || letter > LetterOf(Code::kFailed) ? Code::kFailed
                                                          : static_cast<Code>(letter - 'a');
}

}  // namespace

std::string PackError(const Error& error) {
  // `what` is last, because only it may be cut.
  std::string packed(1, LetterOf(error.code));
  for (const std::string* text : {&error.title, &error.where, &error.page, &error.hint}) {
    packed += *text + '\0';
  }
  packed += error.what;
  if (packed.size() > kPackedErrorBytes) packed.resize(kPackedErrorBytes);
  return packed;
}

Error UnpackError(std::string_view packed) {
  Error error;
  if (!packed.empty()) {
    error.code = CodeOf(packed[0]);
    packed.remove_prefix(1);
  }
  for (std::string* text : {&error.title, &error.where, &error.page, &error.hint}) {
    const size_t end = std::min(packed.find('\0'), packed.size());
    *text = packed.substr(0, end);
    packed.remove_prefix(std::min(end + 1, packed.size()));
  }
  error.what = packed;
  return error;
}

Error AddReporter(int rank, Error error) {
  const std::string intro = "Rank ";
  if (!error.what.starts_with(intro) || error.what.find(" reports:\n") == std::string::npos) {
    error.what = intro + std::to_string(rank) + " reports:\n" + error.what;
  }
  return error;
}

}  // namespace ddprun::trainer
