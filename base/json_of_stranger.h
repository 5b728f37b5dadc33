// Texts that another process wrote, who may be anybody: JSON and files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace ddprun {

// Deeper values would overflow the stack when they are copied or written; ours have a few levels.
inline constexpr int kMaxJsonDepth = 64;
inline constexpr size_t kMaxStrangersBytes = size_t{4} << 20;

// A discarded value, which is of no type, where the text is no JSON, deeper or longer.
nlohmann::json ParseJsonOfStranger(std::string_view text);

// nullopt where there is no regular file of that length at most; a pipe is not waited for.
std::optional<std::string> ReadFileOfStranger(const std::string& path);

}  // namespace ddprun
