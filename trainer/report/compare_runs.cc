#include "trainer/report/compare_runs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/read_file.h"
#include "trainer/report/run_folder.h"
#include "trainer/report/state_hashes.h"

namespace ddprun::trainer {

namespace {

// Keys that differ in every run.
constexpr const char* kOwnKeys[] = {"run.name", "run.output_dir"};

Result<std::map<std::string, std::string>> ReadKeys(const std::string& run) {
  const std::string path = run + "/" + kResolvedConfig;
  DDPRUN_ASSIGN(const std::optional<std::string> text, ReadFile(path));
  const auto config = nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Error{.code = Code::kUsage,
                 .title = "NO RUN FOLDER",
                 .where = run,
                 .what = "\"" + path + "\" is not there, or is no config.",
                 .hint = "Name the folder that a run has left: runs/NAME.",
                 .page = "no-run-folder"};
  }
  std::map<std::string, std::string> keys;
  for (const auto& [section, values] : config.items()) {
    for (const auto& [name, value] : values.items()) keys[section + "." + name] = value.dump();
  }
  for (const char* key : kOwnKeys) keys.erase(key);
  return keys;
}

// Adds the differences between the hashes of one rank.
void Compare(const HashedStep& step,
             std::string_view first,
             std::string_view second,
             int rank,
             std::optional<HashDifference>& found,
             size_t& earliest) {
  for (size_t i = 0; i < step.names->size() && first != second; ++i) {
    const size_t at = i * kHashDigits;
    if (first.substr(at, kHashDigits) == second.substr(at, kHashDigits)) continue;
    if (!found) found = HashDifference();
    ++found->tensors;
    if (found->tensors > 1 && i >= earliest) continue;
    earliest = i;
    found->tensor = (*step.names)[i];
    found->rank = rank;
  }
}

}  // namespace

Result<std::vector<ConfigDifference>> CompareConfigs(const std::string& first,
                                                     const std::string& second) {
  DDPRUN_ASSIGN(const auto of_first, ReadKeys(first));
  DDPRUN_ASSIGN(const auto of_second, ReadKeys(second));
  std::set<std::string> keys;
  for (const auto& [key, value] : of_first) keys.insert(key);
  for (const auto& [key, value] : of_second) keys.insert(key);
  const auto value_of = [](const auto& values, const std::string& key) {
    const auto value = values.find(key);
    return value == values.end() ? std::string() : value->second;
  };
  std::vector<ConfigDifference> differences;
  for (const std::string& key : keys) {
    ConfigDifference one{key, value_of(of_first, key), value_of(of_second, key)};
    if (one.first != one.second) differences.push_back(std::move(one));
  }
  return differences;
}

std::optional<HashComparison> CompareHashes(const std::string& first, const std::string& second) {
  const auto of_first = ReadStateHashes(first + "/" + kStateHashesName);
  const auto of_second = ReadStateHashes(second + "/" + kStateHashesName);
  if (!of_first || !of_second) return std::nullopt;
  HashComparison result;
  for (const auto& [number, step] : *of_first) {
    const auto other = of_second->find(number);
    if (other == of_second->end()) continue;
    ++result.steps;
    if (result.first || !result.other_names.empty()) continue;
    const auto [a, b] = std::ranges::mismatch(*step.names, *other->second.names);
    if (a != step.names->end() || b != other->second.names->end()) {
      result.other_names = a != step.names->end() ? *a : *b;
      continue;
    }
    size_t earliest = 0;
    for (int rank = 0; rank < std::min(step.ranks, other->second.ranks); ++rank) {
      Compare(step, step.Of(rank), other->second.Of(rank), rank, result.first, earliest);
    }
    if (result.first) result.first->step = number;
  }
  return result;
}

std::optional<HashDifference> CompareRanks(const std::string& run) {
  const auto steps = ReadStateHashes(run + "/" + kStateHashesName);
  if (!steps) return std::nullopt;
  for (const auto& [number, step] : *steps) {
    std::optional<HashDifference> found;
    size_t earliest = 0;
    for (const auto& [rank, hashes] : step.others) {
      Compare(step, step.first, hashes, rank, found, earliest);
    }
    if (!found) continue;
    found->step = number;
    return found;
  }
  return std::nullopt;
}

}  // namespace ddprun::trainer
