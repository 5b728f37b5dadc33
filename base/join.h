// The items of a list as a text: "1, 2, 3".
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace ddprun {

// `items`: a range of texts or integers; `quote` stands around each.
template <typename Items>
std::string Joined(const Items& items,
                   std::string_view between = ", ",
                   std::string_view quote = "") {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += between;
    text += quote;
    if constexpr (std::is_integral_v<std::decay_t<decltype(item)>>) {
      text += std::to_string(item);
    } else {
      text += item;
    }
    text += quote;
  }
  return text;
}

}  // namespace ddprun
