// Reads Parquet files as text, by Python's pyarrow. Internal to FileStream.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "trainer/text/byte_decoder.h"

namespace ddprun::trainer {

// The program that writes the text (parquet_text.py).
extern const std::string_view kParquetProgram;

// A process of Python, PYTHON_EXEC or else python3. It ends with this object.
class ParquetText final : public ByteDecoder {
 public:
  // `form`: "jsonl", or the delimiter of a table. Errors: as FileStream's.
  static Result<std::unique_ptr<ByteDecoder>> Start(const std::string& path,
                                                    const std::string& form);
  ~ParquetText() override;

  Result<size_t> Read(char* to, size_t size) override;

 private:
  ParquetText() = default;
  // Waits for the end of the process, and sets ended_.
  void End();

  pid_t pid_ = -1;  // -1: it has ended
  UniqueFd text_;
  UniqueFd errors_;  // a file in memory
  Status ended_;     // an error if the process failed; each later read returns it again
};

}  // namespace ddprun::trainer
