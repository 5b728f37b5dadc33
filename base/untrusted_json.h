// Reads JSON and files that another process wrote, and that may have any content.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace ddprun {

// Copying or writing deeper values would overflow the stack; ddprun's own have a few levels.
inline constexpr int kMaxJsonDepth = 64;
inline constexpr size_t kMaxUntrustedBytes = size_t{4} << 20;

// Returns a discarded value (is_discarded()) if the text is not JSON, too deep or too long.
nlohmann::json ParseUntrustedJson(std::string_view text);

// Returns nullopt unless `path` is a regular file of at most kMaxUntrustedBytes. Never waits.
std::optional<std::string> ReadUntrustedFile(const std::string& path);

}  // namespace ddprun
