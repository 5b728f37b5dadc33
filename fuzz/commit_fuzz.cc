// COMMIT of a checkpoint, as it stands and with its checksum put right: a Commit whose text reads
// to the same again, or an error with a title and a place that can be shown.
#include <cstdio>
#include <string>

#include "base/crc32c.h"
#include "fuzz/input.h"
#include "trainer/checkpoint/commit.h"

namespace {

void Read(std::string_view text) {
  using namespace ddprun;
  const Result<trainer::Commit> commit = trainer::ParseCommit(text, "f/COMMIT");
  if (!commit.has_value()) {
    fuzz::Require(!commit.error().title.empty() && !Render(commit.error()).empty());
    return;
  }
  const std::string written = trainer::CommitText(*commit);
  const Result<trainer::Commit> again = trainer::ParseCommit(written, "f/COMMIT");
  // A file without an attempt is read, too, and has none to write.
  fuzz::Require(commit->attempt.empty() ||
                (again.has_value() && trainer::CommitText(*again) == written));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(ddprun::fuzz::Input(data, size).Rest());
  Read(text);
  char end[16];
  std::snprintf(end, sizeof end, "end %08x\n", ddprun::trainer::Crc32c(text));
  Read(text + end);
  return 0;
}
