// The names of devices that users give: "auto", "cpu", "cuda", "cuda:0". Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace ddprun::trainer {

inline constexpr std::array<std::string_view, 3> kDeviceWords = {"auto", "cpu", "cuda"};

// Returns whether `device` is "cuda:" and a number.
inline bool NamesGpu(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  const size_t digits = device.size() - std::min(device.size(), kPrefix.size());
  return device.starts_with(kPrefix) && digits > 0 && digits < 4 &&
         device.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

// Returns whether run.device may have this value.
inline bool NamesDevice(std::string_view device) {
  return NamesGpu(device) || std::ranges::find(kDeviceWords, device) != kDeviceWords.end();
}

}  // namespace ddprun::trainer
