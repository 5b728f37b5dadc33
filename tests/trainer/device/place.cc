#include "tests/trainer/device/place.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>

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

// Of what the program itself calls, not of LibTorch, the device or the C++ library.
bool IsOfProgram(const Dl_info& info, const std::string& function) {
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  for (const char* other : {"libtorch", "libc10", "libc.so", "libstdc++", "libgtest", "san.so"}) {
    if (file.find(other) != std::string::npos) return false;
  }
  for (const char* other : {"ddprun::simulated", "c10::", "at::", "torch::", "std::", "void "}) {
    if (function.starts_with(other)) return false;
  }
  return true;
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
  if (!node_.empty()) text += (text.empty() ? "" : ", ") + ("backward, " + node_);
  for (int i = 0; i < depth_; ++i) {
    Dl_info info = {};
    // A return address may be behind the last instruction of its function.
    void* const address = static_cast<char*>(frames_[static_cast<size_t>(i)]) - 1;
    if (dladdr(address, &info) == 0 || info.dli_sname == nullptr) continue;
    const std::string function = Demangled(info.dli_sname);
    if (!IsOfProgram(info, function)) continue;
    return text + (text.empty() ? "" : ", ") + "in " + function;
  }
  return text.empty() ? "a place without a label" : text;
}

}  // namespace ddprun::simulated
