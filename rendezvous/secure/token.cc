#include "rendezvous/secure/token.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"

namespace ddprun::rendezvous {

namespace {

// A longer text is no token.
constexpr size_t kMostFileBytes = 256;
constexpr const char* kHint =
    "Make a token with `ddprun token`, and give all nodes of the job the same one:\n"
    "  (umask 077; ddprun token > ~/job.token); export DDPRUN_TOKEN_FILE=~/job.token";

Error BadToken(std::string where, std::string what) {
  return {.code = Code::kUsage,
          .title = "BAD TOKEN",
          .where = std::move(where),
          .what = std::move(what),
          .hint = kHint,
          .page = "token"};
}

// Root may let a group read the file, as Kubernetes does with its secrets.
bool OthersCanRead(const struct stat& file) {
  const bool ours = file.st_uid == ::geteuid();
  return (!ours && file.st_uid != 0) || (file.st_mode & S_IRWXO) != 0 ||
         (ours && file.st_uid != 0 && (file.st_mode & S_IRWXG) != 0);
}

// Reads without a stream, whose buffer would keep the token.
Result<std::string> ReadTokenFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat file {};
  if (!fd.valid() || ::fstat(fd.get(), &file) != 0) {
    return BadToken(path,
                    "The file of DDPRUN_TOKEN_FILE cannot be read: " + ErrnoText(errno) + ".");
  }
  if (OthersCanRead(file)) {
    return BadToken(path,
                    "Other users can read or replace the token: the file must belong to you or to "
                    "root, with mode 0600.");
  }
  std::string text(kMostFileBytes, '\0');
  const ssize_t count = ::read(fd.get(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

void OverwriteInProcess(std::string_view name) {
  char* const value = ::getenv(std::string(name).c_str());
  if (value != nullptr) sodium_memzero(value, std::strlen(value));
}

}  // namespace

std::optional<Token> Token::FromText(std::string_view text) {
  if (::sodium_init() < 0) return std::nullopt;
  auto* const bytes = static_cast<unsigned char*>(::sodium_malloc(kBytes));
  if (bytes == nullptr) return std::nullopt;
  const std::shared_ptr<const unsigned char> owned(bytes, [](const unsigned char* memory) {
    ::sodium_free(const_cast<unsigned char*>(memory));
  });
  size_t length = 0;
  const int result =
      ::sodium_hex2bin(bytes, kBytes, text.data(), text.size(), " \t\r\n", &length, nullptr);
  if (result != 0 || length != kBytes) return std::nullopt;
  return Token(owned);
}

std::string NewTokenText() {
  std::array<unsigned char, Token::kBytes> bytes{};
  if (::sodium_init() < 0) std::abort();  // no source of random bytes: a token would be no secret
  ::randombytes_buf(bytes.data(), bytes.size());
  std::string text(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

Result<std::optional<Token>> TakeToken(Environment& env) {
  std::string text = env.GetOr(kTokenVariable, "");
  const std::string path = env.GetOr(kTokenFileVariable, "");
  for (const std::string_view name : {kTokenVariable, kTokenFileVariable}) env.Unset(name);
  OverwriteInProcess(kTokenVariable);
  const bool in_file = text.empty() && !path.empty();
  if (in_file) {
    DDPRUN_ASSIGN(text, ReadTokenFile(path));
  }
  if (text.empty() && !in_file) return std::optional<Token>();
  auto token = Token::FromText(text);
  ::sodium_memzero(text.data(), text.size());
  if (token) return token;
  return BadToken(in_file ? path : std::string(kTokenVariable),
                  "A token is 64 hexadecimal digits, and this is something else.");
}

}  // namespace ddprun::rendezvous
