#include <nlohmann/json.hpp>

#include "trainer/config/config_text.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

std::string WriteResolvedConfig(const Config& config) {
  Config copy = config;  // slots are writable references
  nlohmann::ordered_json document;
  document["config_version"] = 1;
  for (const Key& key : AllKeys()) {
    std::string text = SlotText(key.slot(copy));
    // A "${" that came out of a substitution or an escape must not be substituted again.
    for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3)) {
      text.insert(at, "$");
    }
    document[std::string(key.section)][std::string(key.name)] = nlohmann::json::parse(text);
  }
  return document.dump(2) + "\n";
}

}  // namespace ddprun::trainer
