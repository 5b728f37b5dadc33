// Whether a sanitizer is active, with which everything takes ten to twenty times as long.
#pragma once

namespace ddprun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace ddprun
