// The properties that a plugin and ddp-trainer must have in common, as plain bytes. They are
// compared before any code of the plugin runs, and before any C++ type passes between the two.
#pragma once

#include <torch/version.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun {

// Raise it with every change of a type in plugin.h or in a header of ddprun that it includes.
constexpr uint32_t kPluginAbi = 7;

// The bytes by which the descriptor is found, because they occur nowhere else in the file. The
// first byte is not text, and the last two would not survive a transfer that changes line ends. It
// is a function, because without optimization a constant would be in the plugin twice.
consteval std::array<char, 16> PluginMagic() {
  return {'\x89', 'd', 'd', 'p', 'r', 'u', 'n', ' ', 'p', 'l', 'u', 'g', 'i', 'n', '\r', '\n'};
}

// Texts end in a NUL byte.
struct PluginDescriptor {
  std::array<char, 16> magic = PluginMagic();
  uint32_t size = 0;  // of this struct
  uint32_t abi = 0;
  std::array<char, 32> ddprun = {};  // versions
  std::array<char, 32> torch = {};
  std::array<char, 32> library = {};   // the C++ library, and the mode that changes its types
  std::array<char, 64> compiler = {};  // for messages; may differ
};

template <size_t N>
constexpr std::array<char, N> PaddedText(std::string_view text) {
  std::array<char, N> padded = {};
  for (size_t i = 0; i < text.size() && i + 1 < N; ++i) padded[i] = text[i];
  return padded;
}

constexpr std::string_view CxxLibrary() {
#if defined(_LIBCPP_VERSION)
  return "libc++";
#elif defined(_GLIBCXX_DEBUG)
  return "libstdc++, debug mode";
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
  return "libstdc++, C++11 ABI";
#else
  return "libstdc++, ABI before C++11";
#endif
}

// Returns the descriptor of the program that is being compiled. `ddprun_version` is DDPRUN_VERSION,
// which the CMake target ddprun::ddprun defines.
constexpr PluginDescriptor DescribeBuild(std::string_view ddprun_version) {
  return {.size = sizeof(PluginDescriptor),
          .abi = kPluginAbi,
          .ddprun = PaddedText<32>(ddprun_version),
          .torch = PaddedText<32>(TORCH_VERSION),
          .library = PaddedText<32>(CxxLibrary()),
          .compiler = PaddedText<64>(__VERSION__)};
}

}  // namespace ddprun
