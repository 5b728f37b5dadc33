#include "trainer/worker/input_files.h"

#include <filesystem>

#include "base/failure.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

void RefuseInputAsOutput(const std::vector<std::string>& files, const std::string& out) {
  for (const std::string& pattern : files) {
    const auto found = ExpandGlob(pattern);
    if (!found) continue;  // the reader of the files says why
    for (const std::string& file : *found) {
      std::error_code error;
      if (!std::filesystem::equivalent(file, out, error)) continue;
      throw Failure(Error{.code = Code::kUsage,
                          .title = "NOT REPLACED",
                          .where = "--out=" + out,
                          .what = "\"" + file + "\" is to be read and to be replaced.",
                          .hint = "Name another file with --out.",
                          .page = "not-replaced"});
    }
  }
}

}  // namespace ddprun::trainer
