#include <bit>
#include <limits>

#include "trainer/state/torch_pickle.h"

namespace ddprun::trainer {

namespace {

class PickleWriter {
 public:
  std::string Take() && { return std::move(out_); }

  void Raw(std::string_view bytes) { out_ += bytes; }

  void Write(const std::string& text) {
    out_ += 'X';
    Little(text.size(), 4);
    out_ += text;
  }
  void Write(int64_t number) {
    if (number >= std::numeric_limits<int32_t>::min() &&
        number <= std::numeric_limits<int32_t>::max()) {
      out_ += 'J';
      Little(static_cast<uint64_t>(number), 4);
    } else {
      out_ += "\x8a\x08";
      Little(static_cast<uint64_t>(number), 8);
    }
  }
  void Write(double number) {
    out_ += 'G';
    const auto bits = std::bit_cast<uint64_t>(number);
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  }
  void Write(bool truth) { out_ += truth ? '\x88' : '\x89'; }
  void Write(const std::vector<int64_t>& numbers) {
    out_ += '(';
    for (const int64_t number : numbers) Write(number);
    out_ += 't';
  }
  void Write(const PickledTensor& tensor) {
    Raw("ctorch._utils\n_rebuild_tensor_v2\n((");
    Write(std::string("storage"));
    Raw("ctorch\n" + tensor.storage_type + "\n");
    Write(tensor.storage);
    Write(std::string("cpu"));
    Write(tensor.storage_size);
    Raw("tQ");
    Write(tensor.offset);
    Write(tensor.shape);
    Write(tensor.strides);
    Write(false);  // requires_grad
    Raw("ccollections\nOrderedDict\n)RtR");
  }

 private:
  void Little(uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(number >> (8 * i));
  }

  std::string out_;
};

}  // namespace

std::string WritePickledState(const std::vector<std::pair<std::string, PickledValue>>& values) {
  PickleWriter writer;
  writer.Raw(
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(");
  for (const auto& [name, value] : values) {
    writer.Write(name);
    std::visit([&writer](const auto& one) { writer.Write(one); }, value);
  }
  writer.Raw("u.");
  return std::move(writer).Take();
}

}  // namespace ddprun::trainer
