#include "trainer/plugin/load_plugin.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/last_words.h"
#include "base/mapped_file.h"

namespace ddprun::trainer {

namespace {

constexpr const char* kHowToBuild = "docs/plugins.md shows how a plugin is built.";

template <size_t N>
std::string TextOf(const std::array<char, N>& padded) {
  return {padded.data(), ::strnlen(padded.data(), N)};
}

std::span<const std::byte> FindDescriptor(std::span<const std::byte> bytes) {
  const std::array<char, 16> text = PluginMagic();
  const auto magic = std::as_bytes(std::span(text));
  return {std::search(bytes.begin(), bytes.end(), magic.begin(), magic.end()), bytes.end()};
}

Failure OtherBuild(const std::string& path,
                   const std::string& what,
                   const std::string& found,
                   const std::string& expected) {
  return Failure(Error{
      .code = Code::kUsage,
      .title = "PLUGIN OF ANOTHER BUILD",
      .where = path,
      .what = what + " of the plugin is " + found + "; this ddp-trainer has " + expected + ".",
      .hint = "Build the plugin again, against the installed package that this "
              "ddp-trainer belongs to.",
      .page = "plugin-of-another-build"});
}

void CheckEqual(const std::string& path, const PluginDescriptor& found) {
  const PluginDescriptor own = DescribeBuild(DDPRUN_VERSION);
  if (found.abi != own.abi || found.size != own.size) {
    throw OtherBuild(path, "The plugin interface", "number " + std::to_string(found.abi),
                     "number " + std::to_string(own.abi));
  }
  struct Field {
    const char* what;
    std::string found;
    std::string expected;
  };
  const Field fields[] = {{"ddprun", TextOf(found.ddprun), TextOf(own.ddprun)},
                          {"PyTorch", TextOf(found.torch), TextOf(own.torch)},
                          {"The C++ library", TextOf(found.library), TextOf(own.library)}};
  for (const Field& field : fields) {
    if (field.found == field.expected) continue;
    const std::string compiler = " (compiled with " + TextOf(found.compiler) + ")";
    throw OtherBuild(path, field.what, field.found + compiler, field.expected);
  }
}

#if defined(__x86_64__)
constexpr Elf64_Half kThisMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kThisMachine = EM_AARCH64;
#else
#error "the number of this machine in elf.h is missing here"
#endif

// Returns the file size that the loaded parts of a shared object need; nullopt if it is not one.
// The dynamic linker does not check this: it dies of SIGBUS if the file is too short.
std::optional<uint64_t> BytesNeeded(std::span<const std::byte> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kThisMachine ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  uint64_t needed = header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr);
  if (header.e_phoff > bytes.size() || needed > bytes.size()) return needed;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    std::memcpy(&part, bytes.data() + header.e_phoff + i * sizeof(part), sizeof(part));
    if (part.p_offset > UINT64_MAX - part.p_filesz) return std::nullopt;
    if (part.p_type == PT_LOAD) needed = std::max(needed, part.p_offset + part.p_filesz);
  }
  return needed;
}

// Checks the file before loading it, because loading a plugin of another build would already run
// its constructors, or end with an undefined symbol that does not show the reason.
void CheckFile(const std::string& path) {
  const Result<MappedFile> file = MappedFile::Open(path);
  if (!file.has_value()) {
    throw UnusablePlugin(path, "cannot be read: " + file.error().what + ".",
                         "Build the plugin, or look at the path: it is relative to the config "
                         "file's folder.");
  }
  const std::span<const std::byte> bytes = file->bytes();
  const std::optional<uint64_t> needed = BytesNeeded(bytes);
  if (!needed) throw UnusablePlugin(path, "is no shared object for this machine.", kHowToBuild);
  if (*needed > bytes.size()) {
    throw UnusablePlugin(path,
                         "is cut off: it has " + std::to_string(bytes.size()) + " of " +
                             std::to_string(*needed) + " bytes.",
                         "Copy or build it again.");
  }
  const std::span<const std::byte> found = FindDescriptor(bytes);
  PluginDescriptor descriptor;
  const size_t head = offsetof(PluginDescriptor, ddprun);
  if (found.size() < head) {
    throw UnusablePlugin(path,
                         "is a shared object, but no plugin: its source does not use "
                         "the macro DDPRUN_PLUGIN.",
                         kHowToBuild);
  }
  std::memcpy(&descriptor, found.data(), std::min(found.size(), sizeof(descriptor)));
  CheckEqual(path, descriptor);
}

std::string LinkerText() {
  const char* text = ::dlerror();
  return text == nullptr ? "no reason was given" : text;
}

std::string HintFor(const std::string& linker_text) {
  if (linker_text.find("cannot open shared object file") != std::string::npos) {
    return "The plugin is linked with a library that is not found: set LD_LIBRARY_PATH, or build "
           "the plugin with an rpath (CMake: INSTALL_RPATH).";
  }
  return "An undefined symbol is a function that no library of the plugin has: look at what it is "
         "linked with (c++filt makes the name readable).";
}

Failure HasNone(const std::string& path, const std::string& what, const std::string& key) {
  return UnusablePlugin(path, "has no " + what + ", and " + key + " asks for one.",
                        "Name the " + what + " in DDPRUN_PLUGIN, or change the config.");
}

}  // namespace

Failure UnusablePlugin(const std::string& path, const std::string& what, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "PLUGIN CANNOT BE USED",
                       .where = path,
                       .what = "\"" + path + "\" " + what,
                       .hint = hint,
                       .page = "plugin-cannot-be-used"});
}

Plugin LoadPlugin(const std::string& path) {
  CheckFile(path);
  // Never closes the plugin, because objects of its types, and exceptions with its texts, live
  // until the process ends. RTLD_LOCAL, because two plugins may have functions of one name.
  // RTLD_NOW, so that an undefined symbol is found here and not in the middle of a run.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string text = LinkerText();
    throw UnusablePlugin(path, "is refused by the dynamic linker:\n" + text, HintFor(text));
  }
  const void* const entries = ::dlsym(handle, "ddprun_plugin_entries");
  if (entries == nullptr) {
    throw UnusablePlugin(path, "hides what DDPRUN_PLUGIN defines:\n" + LinkerText(), kHowToBuild);
  }
  return {path, static_cast<const PluginEntries*>(entries)};
}

void Plugin::RequireModel() const {
  if (entries_->model == nullptr) throw HasNone(path_, "model", "model.type \"plugin\"");
}

std::shared_ptr<PluginModel> Plugin::MakeModel(const PluginModelOptions& options) const {
  RequireModel();
  auto model = CallPlugin(
      path_, [] { return "making the model"; }, [&] { return entries_->model(options); });
  if (model == nullptr) throw PluginError(path_, "The plugin made no model: nullptr.");
  return model;
}

std::unique_ptr<Dataset> Plugin::OpenDataset(const PluginDataOptions& options) const {
  if (entries_->dataset == nullptr) throw HasNone(path_, "data set", "data.format \"plugin\"");
  auto dataset = CallPlugin(
      path_, [] { return "opening the data set"; }, [&] { return entries_->dataset(options); });
  if (dataset == nullptr) throw PluginError(path_, "The plugin opened no data set: nullptr.");
  return dataset;
}

void Plugin::RequireObserver() const {
  if (entries_->observer == nullptr) throw HasNone(path_, "observer", "report.plugin");
}

std::unique_ptr<RunObserver> Plugin::MakeObserver(const PluginObserverOptions& options) const {
  RequireObserver();
  auto observer = CallPlugin(
      path_, [] { return "making the observer"; }, [&] { return entries_->observer(options); });
  if (observer == nullptr) throw PluginError(path_, "The plugin made no observer: nullptr.");
  return observer;
}

Failure PluginError(const std::string& path, const std::string& what) {
  return Failure(Error{.title = "ERROR IN THE PLUGIN",
                       .where = path,
                       .what = what,
                       .hint = "The error is in the plugin's code or in its input. "
                               "docs/plugins.md describes what a plugin must do.",
                       .page = "error-in-the-plugin"});
}

void RethrowFromPlugin(const std::string& path, const std::string& doing) {
  try {
    throw;
  } catch (const Failure&) {
    throw;  // from ddprun's own code, which plugins may call
  } catch (...) {
    throw PluginError(path, "While " + doing + ", the plugin threw:\n" + ExceptionText());
  }
}

}  // namespace ddprun::trainer
