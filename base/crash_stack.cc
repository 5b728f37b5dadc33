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

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace ddprun {

namespace {

constexpr int kMaxFrames = 64;
constexpr int kMaxNames = 10;
constexpr int kOwnFrames = 2;  // frames of the signal handler
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

// Returns "  step(int) (libwaves.so)"; "" means unknown.
std::string Describe(void* frame) {
  // The frame's address is the next instruction, which may belong to another function.
  const uintptr_t address = reinterpret_cast<uintptr_t>(frame) - 1;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::string file = info.dli_fname;
  std::string name = info.dli_sname == nullptr ? "" : info.dli_sname;
  if (name.empty()) {
    // For the program itself, dli_fname may be a name that is not a path.
    const char* path = ::access(file.c_str(), R_OK) == 0 ? file.c_str() : "/proc/self/exe";
    name = Symbols(path).NameAt(address, reinterpret_cast<uintptr_t>(info.dli_fbase));
  }
  if (name.empty()) return "";
  return "  " + Demangle(name) + " (" + file.substr(file.rfind('/') + 1) + ")\n";
}

// Runs in a child process, because after a crash a function that allocates memory may never return.
void WriteNames(const char* title, void* const* frames, int count) {
  std::string text = title;
  int named = 0;
  for (int i = kOwnFrames; i < count && named < kMaxNames; ++i) {
    const std::string line = Describe(frames[i]);
    if (!line.empty()) ++named;
    text += line;
  }
  if (named == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
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
