#include "base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace ddprun {

Result<std::optional<std::string>> ReadFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return std::optional<std::string>();
    return SystemError("opening " + path, errno);
  }
  std::string text;
  std::array<char, size_t{64} << 10> block;
  while (true) {
    const ssize_t size = ::read(fd.get(), block.data(), block.size());
    if (size == 0) return std::optional(std::move(text));
    if (size > 0) text.append(block.data(), static_cast<size_t>(size));
    if (size < 0 && errno != EINTR) return SystemError("reading " + path, errno);
  }
}

std::optional<std::string> ReadIfReadable(const std::string& path) {
  Result<std::optional<std::string>> text = ReadFile(path);
  return text.has_value() ? *std::move(text) : std::nullopt;
}

}  // namespace ddprun
