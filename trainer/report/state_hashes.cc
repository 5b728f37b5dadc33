#include "trainer/report/state_hashes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/mix_seeds.h"
#include "trainer/report/append_line.h"

namespace ddprun::trainer {

namespace {

using HashJson = nlohmann::ordered_json;

std::string Digits(std::span<const uint64_t> hashes) {
  std::string text;
  for (const uint64_t hash : hashes) {
    std::array<char, kHashDigits + 1> digits;
    std::snprintf(digits.data(), digits.size(), "%08x", static_cast<unsigned>(hash >> 32));
    text += digits.data();
  }
  return text;
}

// `step` has the names of the last line of names before this line.
HashedStep ReadStep(const HashJson& line, HashedStep step) {
  if (step.names == nullptr) throw std::out_of_range("names");
  step.first = line.at("hashes").get<std::string>();
  const HashJson others = line.value("others", HashJson::object());
  for (const auto& [rank, digits] : others.items()) {
    step.others[std::stoi(rank)] = digits.get<std::string>();
  }
  const size_t size = step.names->size() * kHashDigits;
  const auto fits = [size](const auto& other) { return other.second.size() == size; };
  if (step.first.size() != size || !std::ranges::all_of(step.others, fits)) {
    throw std::out_of_range("hashes");
  }
  return step;
}

}  // namespace

uint64_t HashBytes(std::span<const std::byte> bytes) {
  constexpr size_t kLanes = 4;  // independent, because a multiplication takes some cycles
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  std::array<uint64_t, kLanes> lanes = {1, 2, 3, 4};
  size_t at = 0;
  for (; bytes.size() - at >= sizeof lanes; at += sizeof lanes) {
    std::array<uint64_t, kLanes> words;
    std::memcpy(words.data(), &bytes[at], sizeof words);
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = std::rotl(lanes[i] ^ (words[i] * kFactor), 29) * kFactor;
    }
  }
  std::array<uint64_t, kLanes> rest = {};
  if (at < bytes.size()) std::memcpy(rest.data(), &bytes[at], bytes.size() - at);
  uint64_t hash = bytes.size();
  for (size_t i = 0; i < kLanes; ++i) hash = MixSeeds({hash, lanes[i], rest[i]});
  return hash;
}

void StateHashFile::OnBegin(const RunHeader& /*header*/, ReportTime /*now*/) {
  fd_ = ValueOrThrow(OpenToAppend(path_));
}

void StateHashFile::OnStateHashes(const StateHashes& hashes, ReportTime /*now*/) {
  std::string text;
  if (!std::exchange(has_names_, true)) {
    text = HashJson{{"ranks", hashes.ranks.size()}, {"names", hashes.names}}.dump() + "\n";
  }
  HashJson line = {{"step", hashes.step}};
  uint64_t total = 0;
  for (const uint64_t hash : hashes.ranks.front()) total = MixSeeds({total, hash});
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(total));
  line["total"] = digits.data();
  line["hashes"] = Digits(hashes.ranks.front());
  for (size_t rank = 1; rank < hashes.ranks.size(); ++rank) {
    if (hashes.ranks[rank] == hashes.ranks.front()) continue;
    line["others"][std::to_string(rank)] = Digits(hashes.ranks[rank]);
  }
  const Status status = AppendLine(fd_.get(), text + line.dump() + "\n", path_);
  if (status.ok() || std::exchange(has_warned_, true)) return;
  warned_.OnNote("warning: state hashes are being lost from step " + std::to_string(hashes.step) +
                 " on: " + status.error().what);
}

Result<std::map<int64_t, HashedStep>> ReadStateHashes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return SystemError("opening " + path, errno);
  std::map<int64_t, HashedStep> steps;
  HashedStep names;
  for (std::string text; std::getline(file, text);) {
    try {
      const HashJson line = HashJson::parse(text);
      if (line.contains("names")) {
        const auto all = line.at("names").get<std::vector<std::string>>();
        names = {std::make_shared<const std::vector<std::string>>(all),
                 line.at("ranks").get<int>()};
      } else {
        steps[line.at("step").get<int64_t>()] = ReadStep(line, names);
      }
    } catch (const std::exception&) {  // a line that a crash has cut off
    }
  }
  return steps;
}

}  // namespace ddprun::trainer
