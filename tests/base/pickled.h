// Writes pickles as PyTorch's flight recorder does.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

inline std::string LittleEndian(uint64_t number, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

inline std::string PText(const std::string& text) {
  return "X" + LittleEndian(text.size(), 4) + text;
}

inline std::string PInt(int64_t number) {
  return "\x8a\x08" + LittleEndian(static_cast<uint64_t>(number), 8);
}

inline std::string PBool(bool value) {
  return value ? "\x88" : "\x89";
}

inline std::string PList(const std::vector<std::string>& items) {
  std::string text = "](";
  for (const std::string& item : items) text += item;
  return text + "e";
}

inline std::string PDict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text = "}(";
  for (const auto& [key, value] : items) text += PText(key) + value;
  return text + "u";
}

inline std::string Pickled(const std::string& value) {
  return "\x80\x02" + value + ".";
}

}  // namespace ddprun
