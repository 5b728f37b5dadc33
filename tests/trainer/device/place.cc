#include "tests/trainer/device/place.h"

#include <c10/util/StringUtil.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ddprun::simulated {
namespace {

thread_local std::vector<std::string> labels;
thread_local std::string operation = "the host";

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// The innermost function of the program, by name where it has one that others could call; not of
// LibTorch, the device or the C++ library.
std::string Function(std::span<void* const> frames) {
  std::string unnamed;
  for (void* const frame : frames) {
    Dl_info info = {};
    // A return address may be behind the last instruction of its function.
    if (dladdr(static_cast<char*>(frame) - 1, &info) == 0) continue;
    const std::string_view path = info.dli_fname;
    const std::string file(path.substr(path.rfind('/') + 1));
    if (file.starts_with("lib")) continue;
    if (info.dli_sname == nullptr) {
      const auto offset = static_cast<char*>(frame) - static_cast<char*>(info.dli_fbase);
      if (unnamed.empty()) unnamed = c10::str(file, "+0x", std::hex, offset);
      continue;
    }
    const std::string function = Demangled(info.dli_sname);
    const auto starts = [&](const char* other) { return function.starts_with(other); };
    if (std::ranges::any_of(std::array{"c10::", "at::", "torch::", "std::", "void "}, starts)) {
      continue;
    }
    if (starts("testing::") || function == "main") break;
    return unnamed.empty() ? "in " + function : "at " + unnamed + " in " + function;
  }
  return unnamed.empty() ? "" : "at " + unnamed;
}

}  // namespace

Label::Label(std::string text) {
  labels.push_back(std::move(text));
}

Label::~Label() {
  labels.pop_back();
}

Doing::Doing(std::string name) : outer_(std::exchange(operation, std::move(name))) {}

Doing::~Doing() {
  operation = std::move(outer_);
}

const std::string& Doing::Operation() {
  return operation;
}

Place::Place() {
  for (const std::string& label : labels) labels_ += (labels_.empty() ? "" : ", ") + label;
  if (const auto node = torch::autograd::get_current_node()) node_ = node->name();
  depth_ = backtrace(frames_.data(), static_cast<int>(frames_.size()));
}

std::string Place::Text() const {
  std::string text = labels_;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  };
  if (!node_.empty()) add("backward, " + node_);
  add(Function({frames_.data(), static_cast<size_t>(depth_)}));
  return text.empty() ? "a place without a label" : text;
}

}  // namespace ddprun::simulated
