#include "trainer/state/torch_file.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <utility>

#include "base/atomic_file.h"

namespace ddprun::trainer {

namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

constexpr const char* kFormat = "file of torch.save";
constexpr int64_t kMaxPickleBytes = int64_t{256} << 20;
constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kPickleMagic = "\x80\x02";
constexpr uint32_t kDescriptorMagic = 0x08074b50;

// The dtypes of "FloatStorage" etc.
constexpr std::array<at::ScalarType, 10> kStored = {
    at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
    at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};

std::string StorageName(at::ScalarType dtype) {
  return std::string(c10::toString(dtype)) + "Storage";
}

std::string FirstBytes(const std::string& path) {
  std::string bytes(4, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

uint32_t Little(const unsigned char* bytes, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) number |= uint32_t{bytes[i]} << (8 * i);
  return number;
}

uint32_t Crc32(const void* data, size_t bytes) {
  const auto crc = ::crc32_z(0, static_cast<const Bytef*>(data), bytes);
  return static_cast<uint32_t>(crc);
}

// Returns the elements that the view spans in its storage; nullopt if it is outside the storage.
std::optional<int64_t> Span(const PickledTensor& view) {
  int64_t elements = 1;
  int64_t last = 0;
  bool overflow = false;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] < 0 || view.strides[i] < 0) return std::nullopt;
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(elements, view.shape[i], &elements);
    overflow |=
        __builtin_mul_overflow(std::max<int64_t>(view.shape[i] - 1, 0), view.strides[i], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  if (elements == 0 && !overflow) return 0;
  int64_t end = 0;
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_add_overflow(last, view.offset, &end);
  if (overflow || view.offset < 0 || end > view.storage_size) return std::nullopt;
  return last;
}

}  // namespace

// Reads the zip archive's table and the places of its records, which are stored uncompressed.
class TorchArchive {
 public:
  struct Record {
    int64_t begin = 0;  // in bytes from the start of the file
    int64_t size = 0;
    uint32_t crc32 = 0;
  };

  explicit TorchArchive(const WeightsBytes& bytes) : bytes_(bytes), reader_(bytes.path()) {}

  bool Has(const std::string& name) { return reader_.hasRecord(name); }

  Record Find(const std::string& name) {
    if (!Has(name)) throw bytes_.Broken("it has no record \"" + name + "\"");
    Record record{.begin = static_cast<int64_t>(reader_.getRecordOffset(name)),
                  .size = static_cast<int64_t>(reader_.getRecordSize(name))};
    if (record.begin < 0 || record.size < 0 || record.begin > bytes_.size() ||
        record.size > bytes_.size() - record.begin) {
      throw bytes_.Broken("its record \"" + name + "\" goes beyond its end");
    }
    std::array<unsigned char, 30> header;
    bytes_.Read(header.data(), header.size(),
                static_cast<int64_t>(reader_.getRecordHeaderOffset(name)));
    if (Little(&header[8], 2) != 0) {
      throw bytes_.Broken("its record \"" + name + "\" is compressed",
                          "torch.save does not compress. Save it again with torch.save.");
    }
    // torch.save writes the checksum behind the data, other tools into the header. 0 means none
    // (torch.serialization.set_crc32_options).
    constexpr uint32_t kBehind = 8;
    constexpr uint32_t kInZip64 = ~uint32_t{0};
    const uint32_t size = Little(&header[18], 4);
    record.crc32 = Little(&header[14], 4);
    bool found = size == record.size || size == kInZip64;
    if ((Little(&header[6], 2) & kBehind) != 0) {
      std::array<unsigned char, 8> descriptor = {};
      if (bytes_.size() - record.begin - record.size >= 8) {
        bytes_.Read(descriptor.data(), descriptor.size(), record.begin + record.size);
      }
      found = Little(descriptor.data(), 4) == kDescriptorMagic;
      record.crc32 = Little(&descriptor[4], 4);
    }
    if (!found) throw bytes_.Broken("its record \"" + name + "\" does not end where it should");
    return record;
  }

  std::string Read(const std::string& name, int64_t max_bytes) {
    const Record record = Find(name);
    if (record.size > max_bytes) throw bytes_.Broken("its record \"" + name + "\" is too large");
    std::string text(static_cast<size_t>(record.size), '\0');
    bytes_.Read(text.data(), text.size(), record.begin);
    if (record.crc32 != 0 && Crc32(text.data(), text.size()) != record.crc32) {
      throw bytes_.Broken("the bytes of its record \"" + name + "\" have changed");
    }
    return text;
  }

 private:
  const WeightsBytes& bytes_;
  PyTorchStreamReader reader_;
};

bool TorchFile::IsTorchFile(const std::string& path) {
  const std::string first = FirstBytes(path);
  // A safetensors file may also begin with these two bytes.
  return first == kZipMagic || (first.starts_with(kPickleMagic) && !path.ends_with(".safetensors"));
}

TorchFile::TorchFile(const std::string& path) : bytes_(path, kFormat) {
  const std::string first = FirstBytes(path);
  if (first.starts_with(kPickleMagic)) {
    throw bytes_.Broken("it has the format of PyTorch before 1.6",
                        "Save it again: torch.save(torch.load(path), path).");
  }
  if (first != kZipMagic) throw bytes_.Broken("it does not begin as one");
  try {
    TorchArchive archive(bytes_);
    if (archive.Has("byteorder") && archive.Read("byteorder", 16) != "little") {
      throw bytes_.Broken("its numbers are big endian", "Save it again on another machine.");
    }
    auto state = ReadPickledState(archive.Read("data.pkl", kMaxPickleBytes));
    if (!state) throw bytes_.Broken(state.error().what, state.error().hint);
    sections_ = std::move(state->sections);
    for (auto& [name, value] : state->values) {
      if (const auto* tensor = std::get_if<PickledTensor>(&value)) {
        AddTensor(name, *tensor, archive);
      } else {
        values_.emplace(name, std::move(value));
      }
    }
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw bytes_.Broken(what.substr(0, what.find('\n')));
  }
}

void TorchFile::AddTensor(const std::string& name,
                          const PickledTensor& tensor,
                          TorchArchive& archive) {
  const auto fail = [&](const std::string& what) {
    return bytes_.Broken("tensor \"" + name + "\" " + what);
  };
  const auto* dtype = std::ranges::find(kStored, tensor.storage_type, StorageName);
  if (dtype == kStored.end()) throw fail("has the unknown type " + tensor.storage_type);
  const TorchArchive::Record record = archive.Find("data/" + tensor.storage);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.storage_size, at::elementSize(*dtype), &bytes) ||
      bytes != record.size) {
    throw fail("should have a storage of " + std::to_string(tensor.storage_size) +
               " elements, but it has " + std::to_string(record.size) + " bytes");
  }
  if (!Span(tensor)) throw fail("goes beyond its storage");
  entries_.emplace(name, Entry{*dtype, tensor, record.begin, record.crc32});
}

at::Tensor TorchFile::Get(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw bytes_.Broken("it has no tensor \"" + name + "\"");
  const Entry& entry = found->second;
  const int64_t elements = *Span(entry.view);
  const auto size = static_cast<int64_t>(at::elementSize(entry.dtype));
  const at::Tensor storage = at::empty({elements}, entry.dtype);
  void* data = storage.mutable_data_ptr();
  if (elements > 0) {
    bytes_.Read(data, storage.nbytes(), entry.begin + entry.view.offset * size);
    const bool whole = elements == entry.view.storage_size;
    if (whole && entry.crc32 != 0 && Crc32(data, storage.nbytes()) != entry.crc32) {
      throw bytes_.Broken("the bytes of tensor \"" + name + "\" have changed");
    }
  }
  return storage.as_strided(entry.view.shape, entry.view.strides);
}

namespace {

PickledTensor ViewOf(const LazyTensor& tensor, const std::string& storage) {
  if (std::ranges::find(kStored, tensor.dtype) == kStored.end()) {
    throw Failure(Error{.title = "CANNOT WRITE WEIGHTS",
                        .what = "Tensor \"" + tensor.name +
                                "\" has a type that is not written to "
                                "files of torch.save."});
  }
  PickledTensor view{
      .storage = storage, .storage_type = StorageName(tensor.dtype), .shape = tensor.shape};
  view.strides.resize(view.shape.size());
  view.storage_size = 1;
  for (size_t i = view.shape.size(); i > 0; --i) {
    view.strides[i - 1] = std::max<int64_t>(view.storage_size, 1);
    view.storage_size *= view.shape[i - 1];
  }
  return view;
}

}  // namespace

void WriteTorchFile(const std::string& path,
                    const std::vector<LazyTensor>& tensors,
                    const std::map<std::string, PickledValue>& values) {
  std::vector<std::pair<std::string, PickledValue>> all;
  std::map<std::string, std::string> storage_of;
  for (const LazyTensor& tensor : tensors) {
    const std::string& owner = tensor.same_as.empty() ? tensor.name : tensor.same_as;
    const auto next = std::to_string(storage_of.size());
    all.emplace_back(tensor.name, ViewOf(tensor, storage_of.emplace(owner, next).first->second));
  }
  all.insert(all.end(), values.begin(), values.end());

  AtomicFile file = ValueOrThrow(AtomicFile::Create(path));
  Status written;
  PyTorchStreamWriter writer([&](const void* data, size_t bytes) {
    if (written.ok()) written = file.Write({static_cast<const char*>(data), bytes});
    return bytes;
  });
  const auto write = [&](const std::string& name, const void* data, size_t bytes) {
    writer.writeRecord(name, data, bytes);
    ThrowIfError(written);
  };
  const auto write_text = [&](const std::string& name, const std::string& text) {
    write(name, text.data(), text.size());
  };
  try {
    write_text("data.pkl", WritePickledState(all));
    write_text(".format_version", "1");
    write_text(".storage_alignment", "64");
    write_text("byteorder", "little");
    for (const LazyTensor& lazy : tensors) {
      if (!lazy.same_as.empty()) continue;
      const at::Tensor tensor = lazy.read().detach().cpu().contiguous();
      write("data/" + storage_of.at(lazy.name), tensor.const_data_ptr(), tensor.nbytes());
    }
    writer.writeEndOfFile();
  } catch (...) {
    // Otherwise the destructor would write the end and warn.
    if (!writer.finalized()) writer.writeEndOfFile();
    throw;
  }
  ThrowIfError(written);
  ThrowIfError(file.Finish());
}

}  // namespace ddprun::trainer
