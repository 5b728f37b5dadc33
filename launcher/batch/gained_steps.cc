#include "launcher/batch/gained_steps.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/env.h"

namespace ddprun::launcher {

Result<GainedSteps> GainedSteps::Create() {
  UniqueFd fd(::memfd_create("ddprun-gained-steps", MFD_CLOEXEC));
  if (!fd.valid()) return SystemError("making a memory file", errno);
  return GainedSteps(std::move(fd));
}

std::string GainedSteps::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

std::optional<int64_t> GainedSteps::Read() const {
  std::array<char, 32> text;
  const ssize_t got = ::pread(fd_.get(), text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  std::string_view number(text.data(), static_cast<size_t>(got));
  return ParseInt(number.substr(0, number.find('\n')));
}

}  // namespace ddprun::launcher
