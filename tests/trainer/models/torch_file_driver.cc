// torch_file_driver to FILE.safetensors FILE.pt: writes the tensors as a file of torch.save, and
// the numbers and texts of the metadata, if any, as texts. torch_file_driver from FILE.pt
// FILE.safetensors: the reverse; values that are no tensors become metadata. For
// check_torch_file.py.
#include <cstdio>
#include <string>
#include <type_traits>

#include "base/failure.h"
#include "trainer/state/torch_file.h"

namespace {

using namespace ddprun::trainer;

void ToTorch(const std::string& from, const std::string& to) {
  const SafetensorsFile file(from);
  std::vector<LazyTensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    tensors.push_back(
        {.name = name, .dtype = entry.dtype, .shape = entry.shape, .read = [&file, name = name] {
           return file.Get(name);
         }});
  }
  std::map<std::string, PickledValue> values;
  for (const auto& [name, text] : file.metadata()) {
    if (name.starts_with("same_as.")) {
      tensors.push_back(tensors.front());
      tensors.back().name = name.substr(8);
      tensors.back().same_as = tensors.front().name;
    } else {
      values.emplace(name, text);
    }
  }
  WriteTorchFile(to, tensors, values);
}

void FromTorch(const std::string& from, const std::string& to) {
  const TorchFile file(from);
  NamedTensors tensors;
  for (const auto& [name, entry] : file.entries()) tensors.emplace_back(name, file.Get(name));
  std::map<std::string, std::string> metadata;
  for (const auto& [name, value] : file.values()) {
    std::visit(
        [&](const auto& one) {
          using One = std::decay_t<decltype(one)>;
          if constexpr (std::is_arithmetic_v<One>) metadata[name] = std::to_string(one);
          if constexpr (std::is_same_v<One, std::string>) metadata[name] = one;
        },
        value);
  }
  WriteSafetensors(to, tensors, metadata);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    (std::string(argv[1]) == "to" ? ToTorch : FromTorch)(argv[2], argv[3]);
    return 0;
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
}
