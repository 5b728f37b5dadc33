#include <cstdio>

#include "launcher/store/store_command.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

namespace {

std::string SizeText(size_t bytes) {
  char text[32];
  if (bytes < 10'000) {
    std::snprintf(text, sizeof text, "%zu bytes", bytes);
  } else {
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return text;
}

}  // namespace

std::string StatusText(const rendezvous::StoreStatus& status) {
  std::string text =
      "connections=" + std::to_string(status.connections) + " keys=" + std::to_string(status.keys) +
      " queued=" + std::to_string(status.queue_elements) +
      " waiting=" + std::to_string(status.num_waits) + " memory=" + SizeText(status.bytes) +
      " unfinished=" + SizeText(status.buffered_bytes) + "\n";
  for (const rendezvous::WaitStatus& wait : status.waits) {
    text += Describe({.status = wait}) + "\n";
  }
  if (status.waits.size() < status.num_waits) {
    text += "and " + std::to_string(status.num_waits - status.waits.size()) + " more\n";
  }
  return text;
}

}  // namespace ddprun::launcher
