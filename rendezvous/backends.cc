#include "rendezvous/backends.h"

#include <algorithm>
#include <array>

namespace ddprun::rendezvous {

std::span<const Backend* const> Backends() {
  static constexpr std::array<const Backend*, 2> kAll = {&kStaticBackend, &kElasticBackend};
  return kAll;
}

const Backend* FindBackend(std::string_view name) {
  const auto found = std::ranges::find(Backends(), name, &Backend::name);
  return found == Backends().end() ? nullptr : *found;
}

}  // namespace ddprun::rendezvous
