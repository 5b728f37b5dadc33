#include "trainer/config/read_config.h"

#include <filesystem>
#include <utility>

#include "trainer/config/checker.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/entries.h"
#include "trainer/config/json_document.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

Result<Config> ReadConfigText(const Source& file,
                              const std::vector<std::string>& overrides,
                              const ReadContext& context,
                              Config* refused) {
  DDPRUN_ASSIGN(const JsonValue root, ParseJson(file));
  Problems problems;
  Entries entries(file.label);
  entries.AddFile(root, &problems);
  if (root.kind != JsonValue::Kind::kObject) return std::move(problems).Take();
  for (const std::string& text : overrides) entries.AddOverride(text, &problems);
  Config config;
  bool assigned = true;
  for (const auto& [key, entry] : entries.all()) {
    Status status = AssignValue(*key, entry.value, context, &config);
    if (status.ok()) continue;
    assigned = false;
    problems.Add(std::move(status).error());
  }
  // Skipped after an error, because the default of a refused value may not fit the other keys.
  if (assigned) {
    FillDerivedDefaults(entries, &config);
    CrossCheck(entries, config, &problems);
  }
  if (problems.empty()) return config;
  if (refused != nullptr) *refused = std::move(config);
  return std::move(problems).Take();
}

Result<Config> ReadConfig(const std::string& path,
                          const std::vector<std::string>& overrides,
                          const Environment& environment,
                          Config* refused) {
  DDPRUN_ASSIGN(const Source file, LoadConfigFile(path));
  std::error_code error;
  const std::filesystem::path working_folder = std::filesystem::current_path(error);
  const ReadContext context{
      .environment = environment,
      .config_folder = (working_folder / path).parent_path().lexically_normal().string(),
      .working_folder = working_folder.string()};
  return ReadConfigText(file, overrides, context, refused);
}

}  // namespace ddprun::trainer
