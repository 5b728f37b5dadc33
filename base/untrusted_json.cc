#include "base/untrusted_json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/unique_fd.h"

namespace ddprun {

nlohmann::json ParseUntrustedJson(std::string_view text) {
  using Json = nlohmann::json;
  const Json refused(Json::value_t::discarded);
  if (text.size() > kMaxUntrustedBytes) return refused;
  bool too_deep = false;
  // The parser drops a value for which this returns false, so it never builds a deep value.
  const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return !too_deep;
  };
  Json value = Json::parse(text, keep, /*allow_exceptions=*/false);
  return too_deep ? refused : value;
}

std::optional<std::string> ReadUntrustedFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string text;
  while (text.size() <= kMaxUntrustedBytes) {
    const size_t before = text.size();
    text.resize(before + (size_t{64} << 10));
    const ssize_t got = ::read(file.get(), text.data() + before, text.size() - before);
    text.resize(before + static_cast<size_t>(got > 0 ? got : 0));
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
  }
  return std::nullopt;
}

}  // namespace ddprun
