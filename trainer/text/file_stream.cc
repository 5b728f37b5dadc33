#include "trainer/text/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/text/parquet_text.h"

namespace ddprun::trainer {

namespace {

constexpr std::string_view kGzip = "\x1f\x8b\x08";
constexpr std::string_view kParquet = "PAR1";
constexpr const char* kNoParquet =
    "Parquet is read by data.format \"jsonl\", \"chat\", \"text_classification\" and \"csv\".";

Error Because(std::string reason, std::string hint = "") {
  return Error{.what = std::move(reason), .hint = std::move(hint)};
}

Error DamagedFile(std::string reason) {
  return Because(std::move(reason), "Copy the file again: it is cut off or damaged.");
}

Result<size_t> ReadSome(int fd, char* to, size_t size) {
  while (true) {
    const ssize_t count = ::read(fd, to, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) return Because(ErrnoText(errno));
  }
}

// Decompresses members one after the other, as `cat a.gz b.gz`, pigz and bgzip make them. Zero
// bytes may follow the last one, as on tapes.
class Gunzip final : public ByteDecoder {
 public:
  explicit Gunzip(int fd) : fd_(fd), input_(size_t{1} << 16) {
    ready_ = ::inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~Gunzip() override { ::inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  int64_t file_bytes_read() const override { return read_; }

  Result<size_t> Read(char* to, size_t size) override {
    if (!ready_) return Because("zlib has no memory for decompressing");
    size_t done = 0;
    while (done < size) {
      if (stream_.avail_in == 0) {
        DDPRUN_ASSIGN(const size_t count, ReadSome(fd_, input_.data(), input_.size()));
        read_ += static_cast<int64_t>(count);
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(count);
        if (count == 0 && in_member_) {
          return DamagedFile("its gzip data is cut off at byte " + std::to_string(read_));
        }
        if (count == 0) break;
      }
      if (!in_member_ && !BeginMember()) continue;
      DDPRUN_ASSIGN(const size_t count, Inflate(to + done, size - done));
      done += count;
    }
    return done;
  }

 private:
  static constexpr int kGzipOnly = 16 + MAX_WBITS;

  // Returns false if all of the input was padding.
  bool BeginMember() {
    while (stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
    }
    if (stream_.avail_in == 0) return false;
    ::inflateReset(&stream_);
    in_member_ = true;
    return true;
  }

  Result<size_t> Inflate(char* to, size_t size) {
    const auto room = static_cast<uInt>(
        std::min<size_t>(size, static_cast<size_t>(std::numeric_limits<int32_t>::max())));
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = room;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      in_member_ = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return DamagedFile("its gzip data is damaged near byte " +
                         std::to_string(read_ - stream_.avail_in) + " (" +
                         (stream_.msg != nullptr ? stream_.msg : ::zError(result)) + ")");
    }
    return room - stream_.avail_out;
  }

  const int fd_;
  z_stream stream_ = {};
  std::vector<char> input_;
  int64_t read_ = 0;  // bytes of the file
  bool ready_ = false;
  bool in_member_ = false;
};

}  // namespace

FileStream::FileStream(UniqueFd fd, int64_t file_size)
    : fd_(std::move(fd)), file_size_(file_size) {}

FileStream::FileStream(FileStream&&) noexcept = default;
FileStream& FileStream::operator=(FileStream&&) noexcept = default;
FileStream::~FileStream() = default;

Result<FileStream> FileStream::Open(const std::string& path, const std::string& parquet_as) {
  // O_NONBLOCK, because otherwise opening a pipe waits for its writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return Because(ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) return Because("it is no regular file");
  char begin[kParquet.size()] = {};
  const ssize_t count = ::pread(fd.get(), begin, sizeof(begin), 0);
  if (count < 0) return Because(ErrnoText(errno));
  FileStream stream(std::move(fd), status.st_size);
  const std::string_view magic(begin, static_cast<size_t>(count));
  if (magic.starts_with(kGzip)) {
    stream.decoder_ = std::make_unique<Gunzip>(stream.fd_.get());
  } else if (magic == kParquet) {
    if (parquet_as.empty()) return Because("it is a Parquet file", kNoParquet);
    DDPRUN_ASSIGN(stream.decoder_, ParquetText::Start(path, parquet_as));
  }
  return stream;
}

Result<size_t> FileStream::Read(char* to, size_t size) {
  if (decoder_ != nullptr) return decoder_->Read(to, size);
  size_t done = 0;
  while (done < size) {
    DDPRUN_ASSIGN(const size_t count, ReadSome(fd_.get(), to + done, size - done));
    if (count == 0) break;
    done += count;
    plain_bytes_read_ += static_cast<int64_t>(count);
  }
  return done;
}

int64_t FileStream::file_bytes_read() const {
  return decoder_ != nullptr ? decoder_->file_bytes_read() : plain_bytes_read_;
}

Failure UnreadableFile(const std::string& path,
                       const std::string& reason,
                       const std::string& hint,
                       Code code) {
  return Failure(
      Error{.code = code,
            .title = "DATA FILE CANNOT BE READ",
            .where = path,
            .what = "\"" + path + "\" cannot be read: " + reason + ".",
            .hint = !hint.empty() ? hint : "A regular file that this user may read is expected.",
            .page = "unreadable-data-file"});
}

Failure Utf16File(const std::string& path) {
  return UnreadableFile(path, "it is text in UTF-16, and UTF-8 was expected",
                        "Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE", Code::kUsage);
}

}  // namespace ddprun::trainer
