#include "trainer/state/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/text.h"

namespace ddprun::trainer {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr int kMaxHeaderDepth = 3;  // of brackets, because deeper nesting would only use memory

struct DtypeName {
  const char* name;
  at::ScalarType dtype;
};
constexpr std::array<DtypeName, 10> kDtypes = {{{"F32", at::kFloat},
                                                {"F16", at::kHalf},
                                                {"BF16", at::kBFloat16},
                                                {"F64", at::kDouble},
                                                {"I64", at::kLong},
                                                {"I32", at::kInt},
                                                {"I16", at::kShort},
                                                {"I8", at::kChar},
                                                {"U8", at::kByte},
                                                {"BOOL", at::kBool}}};

Failure CannotStore(const std::string& name, const std::string& why) {
  return Failure(Error{.title = "CANNOT WRITE WEIGHTS",
                       .where = name,
                       .what = "Tensor \"" + name + "\" " + why + "."});
}

// Refuses duplicate keys, because json keeps only the last one, which would hide a tensor.
json ParseHeader(const WeightsBytes& bytes, std::string_view text) {
  std::vector<std::string> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key) keys.push_back(value.get<std::string>());
    return depth <= kMaxHeaderDepth;
  };
  json header = json::parse(text, watch, /*allow_exceptions=*/false);
  if (!header.is_object()) throw bytes.Broken("its header is no JSON object");
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) throw bytes.Broken("tensor \"" + *twice + "\" comes twice");
  return header;
}

// Returns a list of numbers from 0 to 2^63 - 1.
std::optional<std::vector<int64_t>> Naturals(const json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) return std::nullopt;
    const auto number = item.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

// Returns the bytes of a tensor; nullopt if they are more than 2^63 - 1.
std::optional<int64_t> ByteCount(std::span<const int64_t> shape, at::ScalarType dtype) {
  auto bytes = static_cast<int64_t>(at::elementSize(dtype));
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// `data_begin` and `file_size` are bytes from the start of the file.
SafetensorsFile::Entry ReadEntry(const WeightsBytes& file,
                                 const std::string& name,
                                 const json& value,
                                 int64_t data_begin) {
  const int64_t file_size = file.size();
  const auto fail = [&](const std::string& what) {
    return file.Broken("tensor \"" + name + "\" " + what);
  };
  if (!value.is_object()) throw fail("has no description");
  const json dtype_text = value.value("dtype", json());
  const auto dtype = ParseSafetensorsDtype(dtype_text.is_string() ? std::string(dtype_text) : "");
  const auto shape = Naturals(value.value("shape", json()));
  const auto offsets = Naturals(value.value("data_offsets", json()));
  if (!shape) throw fail("has no shape");
  if (!offsets || offsets->size() != 2) throw fail("has no pair of data_offsets");
  if (!dtype) throw fail("has the unknown dtype " + dtype_text.dump());
  const int64_t begin = (*offsets)[0];
  const int64_t end = (*offsets)[1];
  if (begin > end || end > file_size - data_begin) {
    throw fail("lies at bytes " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
               std::to_string(file_size - data_begin));
  }
  const auto bytes = ByteCount(*shape, *dtype);
  if (bytes != end - begin) {
    throw fail("of shape [" + FormatList(*shape) + "] and dtype " + std::string(dtype_text) +
               " has " + std::to_string(end - begin) + " bytes");
  }
  return {*dtype, *shape, data_begin + begin, data_begin + end};
}

// Throws unless every byte after the header belongs to exactly one tensor.
void CheckCover(const SafetensorsFile& file, const WeightsBytes& bytes, int64_t data_begin) {
  using Named = std::pair<const std::string, SafetensorsFile::Entry>;
  std::vector<const Named*> sorted;
  for (const Named& named : file.entries()) sorted.push_back(&named);
  std::sort(sorted.begin(), sorted.end(), [](const Named* a, const Named* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t at = data_begin;
  for (const Named* named : sorted) {
    if (named->second.begin != at) {
      throw bytes.Broken("tensor \"" + named->first +
                         (named->second.begin < at ? "\" overlaps the one before it"
                                                   : "\" leaves a gap before it"));
    }
    at = named->second.end;
  }
  if (at != bytes.size()) {
    throw bytes.Broken(std::to_string(bytes.size() - at) + " bytes follow the last tensor");
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : bytes_(path, "safetensors file") {
  const int64_t file_size = bytes_.size();
  uint64_t header_bytes = 0;
  if (file_size < static_cast<int64_t>(kLengthBytes)) {
    throw bytes_.Broken("it has " + std::to_string(file_size) + " bytes");
  }
  bytes_.Read(&header_bytes, kLengthBytes, 0);
  if (header_bytes > kMaxHeaderBytes ||
      header_bytes > static_cast<uint64_t>(file_size) - kLengthBytes) {
    throw bytes_.Broken("its header should have " + std::to_string(header_bytes) +
                        " bytes, but the file has " + std::to_string(file_size));
  }
  std::string header_text(header_bytes, ' ');
  bytes_.Read(header_text.data(), header_text.size(), kLengthBytes);
  const json header = ParseHeader(bytes_, header_text);
  const auto data_begin = static_cast<int64_t>(kLengthBytes + header_bytes);
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries_.emplace(name, ReadEntry(bytes_, name, value, data_begin));
      continue;
    }
    if (!value.is_object()) throw bytes_.Broken("its __metadata__ is no object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) throw bytes_.Broken("its __metadata__ has more than strings");
      metadata_[key] = text.get<std::string>();
    }
  }
  CheckCover(*this, bytes_, data_begin);
}

const SafetensorsFile::Entry& SafetensorsFile::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw bytes_.Broken("it has no tensor \"" + name + "\"");
  return found->second;
}

void SafetensorsFile::ReadBytes(const std::string& name,
                                int64_t skip,
                                void* target,
                                size_t bytes) const {
  bytes_.Read(target, bytes, Find(name).begin + skip);
}

at::Tensor SafetensorsFile::Get(const std::string& name) const {
  const Entry& entry = Find(name);
  at::Tensor tensor = at::empty(entry.shape, entry.dtype);
  ReadBytes(name, 0, tensor.mutable_data_ptr(), tensor.nbytes());
  return tensor;
}

void SafetensorsFile::ReadInto(const std::string& name, at::Tensor& target) const {
  const Entry& entry = Find(name);
  if (target.is_cpu() && target.is_contiguous() && target.scalar_type() == entry.dtype &&
      target.sizes() == at::IntArrayRef(entry.shape)) {
    ReadBytes(name, 0, target.mutable_data_ptr(), target.nbytes());
  } else {
    target.copy_(Get(name));
  }
}

std::string SafetensorsDtype(at::ScalarType dtype, const std::string& name) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const DtypeName& known) { return known.dtype == dtype; });
  if (found != kDtypes.end()) return found->name;
  throw CannotStore(name, "has a dtype that the safetensors format lacks");
}

std::optional<at::ScalarType> ParseSafetensorsDtype(std::string_view text) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const DtypeName& known) { return text == known.name; });
  return found == kDtypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string SafetensorsHeader(const std::vector<SafetensorsItem>& items,
                              const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const auto& [name, dtype, shape] : items) {
    if (header.contains(name)) throw CannotStore(name, "comes twice");
    const int64_t bytes = ByteCount(shape, dtype).value();
    header[name] = {{"dtype", SafetensorsDtype(dtype, name)},
                    {"shape", shape},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

void WriteSafetensors(const std::string& path,
                      std::vector<LazyTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  // Sorts like the reference writer.
  std::sort(tensors.begin(), tensors.end(), [](const LazyTensor& a, const LazyTensor& b) {
    const auto width = [](const LazyTensor& tensor) {
      return -static_cast<int64_t>(at::elementSize(tensor.dtype));
    };
    return std::pair(width(a), std::string_view(a.name)) <
           std::pair(width(b), std::string_view(b.name));
  });
  std::vector<SafetensorsItem> items;
  for (const LazyTensor& lazy : tensors) items.push_back({lazy.name, lazy.dtype, lazy.shape});
  const std::string header = SafetensorsHeader(items, metadata);
  AtomicFile file = ValueOrThrow(AtomicFile::Create(path));
  ThrowIfError(file.Write(header));
  for (const LazyTensor& lazy : tensors) {
    const at::Tensor tensor = lazy.read().detach().cpu().contiguous();
    ThrowIfError(file.Write({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}));
  }
  ThrowIfError(file.Finish());
}

void WriteSafetensors(const std::string& path,
                      const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<LazyTensor> all;
  for (const auto& [name, tensor] : tensors) {
    all.push_back({.name = name,
                   .dtype = tensor.scalar_type(),
                   .shape = tensor.sizes().vec(),
                   .read = [tensor = tensor] { return tensor; }});
  }
  WriteSafetensors(path, std::move(all), metadata);
}

}  // namespace ddprun::trainer
