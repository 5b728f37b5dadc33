// A config file, and --set options on the lines after a line "--": a Config whose text reads to the
// same again, or an error with a title and a place that can be shown.
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/input.h"
#include "trainer/config/config_text.h"
#include "trainer/config/read_config.h"

namespace {

ddprun::Result<ddprun::trainer::Config> Read(std::string text,
                                             const std::vector<std::string>& overrides) {
  const ddprun::Environment environment;
  const ddprun::trainer::Source source{.label = "f", .text = std::move(text)};
  return ddprun::trainer::ReadConfigText(source, overrides, {environment, "/c", "/w"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun;
  std::string_view rest = fuzz::Input(data, size).Rest();
  const size_t end = rest.find("\n--\n");
  const std::string text(rest.substr(0, end));
  std::vector<std::string> overrides;
  if (end != rest.npos) rest.remove_prefix(end + 4);
  while (end != rest.npos && !rest.empty()) {
    overrides.emplace_back(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), overrides.back().size() + 1));
  }
  const auto config = Read(text, overrides);
  if (!config.has_value()) {
    fuzz::Require(!config.error().title.empty());
    fuzz::Require(!Render(config.error()).empty());
    return 0;
  }
  const std::string resolved = trainer::WriteResolvedConfig(*config);
  const auto again = Read(resolved, {});
  fuzz::Require(again.has_value() && trainer::WriteResolvedConfig(*again) == resolved);
  return 0;
}
