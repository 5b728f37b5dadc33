#include "base/crash_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/unique_fd.h"

namespace ddprun {

namespace {

constexpr int kMaxFrames = 128;
constexpr int kMaxNames = 16;
constexpr int kTorchNames = 2;  // of functions of LibTorch that follow each other
constexpr int kOwnFrames = 2;   // frames of the signal handler
constexpr unsigned kNamingSeconds = 3;

// The symbol table of an ELF file, which also has functions that the file does not export.
class Symbols {
 public:
  explicit Symbols(const char* path) {
    const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
    struct stat status = {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) return;
    void* data =
        ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return;
    text_ = {static_cast<const char*>(data), static_cast<size_t>(status.st_size)};
  }

  // Returns the function at `address`; "" means unknown. `base` is where the file is mapped.
  std::string NameAt(uintptr_t address, uintptr_t base) const {
    const auto* header = At<Elf64_Ehdr>(0, 1);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return "";
    if (header->e_type != ET_EXEC) address -= base;
    const auto* sections = At<Elf64_Shdr>(header->e_shoff, header->e_shnum);
    for (int i = 0; sections != nullptr && i < header->e_shnum; ++i) {
      const Elf64_Shdr& table = sections[i];
      if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
      const size_t count = table.sh_size / sizeof(Elf64_Sym);
      const auto* symbols = At<Elf64_Sym>(table.sh_offset, count);
      for (size_t s = 0; symbols != nullptr && s < count; ++s) {
        const Elf64_Sym& symbol = symbols[s];
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || address < symbol.st_value) continue;
        if (address - symbol.st_value >= symbol.st_size) continue;
        return TextAt(sections[table.sh_link].sh_offset + symbol.st_name);
      }
    }
    return "";
  }

 private:
  template <typename T>
  const T* At(size_t offset, size_t count) const {
    if (offset > text_.size() || (text_.size() - offset) / sizeof(T) < count) return nullptr;
    return reinterpret_cast<const T*>(text_.data() + offset);
  }
  std::string TextAt(size_t offset) const {
    if (offset >= text_.size()) return "";
    const std::string_view rest = text_.substr(offset);
    return std::string(rest.substr(0, rest.find('\0')));
  }

  std::string_view text_;
};

std::string Demangle(const std::string& name) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : name;
}

struct NamedFrame {
  std::string function;  // "" means unknown
  std::string file;      // "libwaves.so"
};

NamedFrame Describe(void* frame) {
  // The frame's address is the next instruction, which may belong to another function.
  const uintptr_t address = reinterpret_cast<uintptr_t>(frame) - 1;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr)
    return {};
  const std::string file = info.dli_fname;
  std::string name = info.dli_sname == nullptr ? "" : info.dli_sname;
  if (name.empty()) {
    // For the program itself, dli_fname may be a name that is not a path.
    const char* path = ::access(file.c_str(), R_OK) == 0 ? file.c_str() : "/proc/self/exe";
    name = Symbols(path).NameAt(address, reinterpret_cast<uintptr_t>(info.dli_fbase));
  }
  return {.function = Demangle(name), .file = file.substr(file.rfind('/') + 1)};
}

// Returns the frames with a name, without the way from an exception or abort() to the signal.
std::vector<NamedFrame> NamedFrames(void* const* frames, int count) {
  constexpr std::string_view kThrowing[] = {"__cxa_throw", "__cxa_rethrow", "std::terminate()",
                                            "abort",       "raise",         "gsignal",
                                            "pthread_kill"};
  std::vector<NamedFrame> named;
  for (int i = kOwnFrames; i < count; ++i) {
    NamedFrame frame = Describe(frames[i]);
    if (std::ranges::find(kThrowing, frame.function) != std::end(kThrowing)) {
      named.clear();
    } else if (!frame.function.empty()) {
      named.push_back(std::move(frame));
    }
  }
  return named;
}

// Runs in a child process, because after a crash a function that allocates memory may never return.
void WriteNames(const char* title, void* const* frames, int count) {
  std::string text = title;
  int left_out = 0;
  int written = 0;
  int of_torch = 0;
  const std::vector<NamedFrame> named = NamedFrames(frames, count);
  for (const NamedFrame& frame : named) {
    const bool torch = frame.file.starts_with("libtorch") || frame.file.starts_with("libc10");
    of_torch = torch ? of_torch + 1 : 0;
    if (of_torch > kTorchNames) {
      ++left_out;
      continue;
    }
    if (left_out > 0) text += "  ... (" + CountText(left_out, "function") + " of LibTorch)\n";
    left_out = 0;
    if (++written > kMaxNames) break;
    text += "  " + frame.function + " (" + frame.file + ")\n";
  }
  if (named.empty()) return;
  [[maybe_unused]] const ssize_t bytes = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void WriteStack(const char* title) {
  void* frames[kMaxFrames];
  const int count = ::backtrace(frames, kMaxFrames);
  const auto write = [](const char* text) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  };
  write(title);
  write(":\n");
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
  char named[128] = {};
  std::strncat(named, title, 100);
  std::strcat(named, ", by name:\n");
  // A raw clone() skips the handlers of fork(), one of which may wait for a lock of this thread.
  const auto child =
      static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child < 0) return;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_DUMPABLE, 0);
    for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) {
      ::signal(signal, SIG_DFL);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::alarm(kNamingSeconds);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    WriteNames(named, frames, count);
    ::_exit(0);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ddprun
