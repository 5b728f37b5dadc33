// The secret of a job, which all of its agents have.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/result.h"

namespace ddprun::rendezvous {

// 32 bytes in memory that no core dump contains. Immutable, so any thread may use it.
class Token {
 public:
  static constexpr size_t kBytes = 32;

  // Returns the token of 64 hexadecimal digits, with blanks around them or not; nullopt for any
  // other text.
  static std::optional<Token> FromText(std::string_view text);

  // Has kBytes bytes.
  const unsigned char* data() const { return bytes_.get(); }

 private:
  explicit Token(std::shared_ptr<const unsigned char> bytes) : bytes_(std::move(bytes)) {}

  std::shared_ptr<const unsigned char> bytes_;
};

inline constexpr std::string_view kTokenVariable = "DDPRUN_TOKEN";           // the text itself
inline constexpr std::string_view kTokenFileVariable = "DDPRUN_TOKEN_FILE";  // a file with it

// Returns a new random token as 64 hexadecimal digits.
std::string NewTokenText();

// Returns the token that the variables give; nullopt if both are unset or empty. Removes them from
// `env`, and overwrites the text in this process's own environment, which other processes of the
// user can read. Errors: kUsage (page "token") if the text is no token, or if other users can read
// the file. Call it before threads are started.
Result<std::optional<Token>> TakeToken(Environment& env);

}  // namespace ddprun::rendezvous
