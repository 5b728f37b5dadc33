#include "trainer/data/bad_rows.h"

#include "base/failure.h"
#include "base/text.h"

namespace ddprun::trainer {

void BadRows::Add(const std::string& file, int64_t line, const std::string& found) {
  const std::string where = file + ":" + std::to_string(line);
  if (!skip_) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "BAD ROW",
                        .where = where,
                        .what = found,
                        .hint = "Correct the row, or set data.on_bad_row to \"skip\" to leave out "
                                "such rows; they are counted.",
                        .page = "bad-row"});
  }
  if (skipped_++ == 0) first_ = where + ": " + found;
}

std::vector<std::string> BadRows::Notes() const {
  std::vector<std::string> notes;
  if (skipped_ > 0) {
    notes.push_back(CountText(skipped_, "row") + " skipped that cannot be read, the first at " +
                    first_);
  }
  if (unlabelled_ > 0) {
    notes.push_back(CountText(unlabelled_, "row") + " skipped that have no label");
  }
  return notes;
}

}  // namespace ddprun::trainer
