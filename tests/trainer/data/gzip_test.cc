// Data files that gzip compressed.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <numeric>

#include "base/failure.h"
#include "tests/base/error_of.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/csv_dataset.h"
#include "trainer/data/data_files.h"
#include "trainer/data/image_arrays.h"
#include "trainer/data/labelled_texts.h"
#include "trainer/data/text_dataset.h"
#include "trainer/data/token_dataset.h"
#include "trainer/text/document_reader.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

// One member, as `gzip -n` writes it.
std::string Gzip(const std::string& text) {
  z_stream stream = {};
  ::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT: only read
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

// Text that compresses, but not to nothing.
std::string Lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i * 7919 % 1013) + " words\n";
  return text;
}

class Gzipped : public testing::Test {
 protected:
  std::string Read(const std::string& packed) const {
    const FileBytes bytes = ReadDataFile(scratch_.Write("file.gz", packed), 3);
    EXPECT_EQ(bytes.storage.size(), bytes.size + 3);
    EXPECT_EQ(std::string_view(bytes.storage.data() + bytes.size, 3),
              std::string_view("\0\0\0", 3));
    return std::string(bytes.text());
  }
  Error ErrorOfReading(const std::string& packed) const {
    return ErrorOf([&] { Read(packed); });
  }

  const ScratchFolder scratch_;
};

TEST_F(Gzipped, FilesAreReadWhole) {
  for (const int lines : {0, 1, 5, 500, 100000}) {
    const std::string text = Lines(lines);
    EXPECT_EQ(Read(Gzip(text)), text) << lines;
  }
  EXPECT_EQ(Read(Gzip(std::string(3'000'000, 'x'))), std::string(3'000'000, 'x'));
}

TEST_F(Gzipped, MembersFollowOneAnotherAndZerosThem) {
  EXPECT_EQ(Read(Gzip("one ") + Gzip("") + Gzip("two")), "one two");
  EXPECT_EQ(Read(Gzip("one") + std::string(70000, '\0')), "one");
  EXPECT_EQ(Read(Gzip("one ") + std::string(5, '\0') + Gzip("two")), "one two");
  EXPECT_THAT(ErrorOfReading(Gzip("one") + "and more").what,
              HasSubstr("its gzip data is damaged near byte "));
}

TEST_F(Gzipped, FilesThatAreCutOffNameFileAndPlace) {
  const std::string whole = Gzip(Lines(40));
  for (size_t size = 3; size < whole.size(); ++size) {
    const Error error = ErrorOfReading(whole.substr(0, size));
    EXPECT_EQ(error.where, scratch_.Path("file.gz"));
    EXPECT_EQ(error.what, "\"" + scratch_.Path("file.gz") +
                              "\" cannot be read: its gzip data is cut off at byte " +
                              std::to_string(size) + ".");
    EXPECT_EQ(error.hint, "Copy the file again: it is cut off or damaged.");
  }
}

TEST_F(Gzipped, FilesThatAreDamagedAreNeverReadAsSomethingElse) {
  const std::string text = Lines(40);
  const std::string whole = Gzip(text);
  for (size_t at = 3; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x12);
    try {
      EXPECT_EQ(Read(damaged), text) << at;  // a byte that says when and where it was made
      EXPECT_LT(at, 10);
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.error().what,
                  AnyOf(HasSubstr("damaged near byte"), HasSubstr("cut off")));
    }
  }
}

// The bytes are in a temporary file then.
TEST_F(Gzipped, FilesMayBecomeLargerThanWhatIsKeptInMemory) {
  constexpr size_t kBytes = LargeBytes::kMostInMemory + 70'000'001;
  const std::string packed = Gzip(std::string(kBytes, 'x'));
  EXPECT_LT(packed.size(), 400'000);
  const std::string text = Read(packed);
  EXPECT_EQ(text.size(), kBytes);
  EXPECT_EQ(text.find_first_not_of('x'), text.npos);
}

std::string Idx(uint8_t dimensions, const std::vector<uint8_t>& sizes, const std::string& data) {
  std::string file = {0, 0, 8, static_cast<char>(dimensions)};
  for (const uint8_t size : sizes) file += std::string(3, '\0') + static_cast<char>(size);
  return file + data;
}

TEST_F(Gzipped, IdxFilesAreReadAsPublished) {
  std::string pixels(20 * 4 * 5, '\0');
  std::iota(pixels.begin(), pixels.end(), '\0');
  std::string classes(20, '\1');
  classes[7] = '\3';
  const std::string images = Idx(3, {20, 4, 5}, pixels);
  const std::string labels = Idx(1, {20}, classes);
  scratch_.Write("a/images-idx3", images);
  scratch_.Write("a/labels-idx1", labels);
  const std::string packed = scratch_.Write("b/train-images-idx3-ubyte.gz", Gzip(images));
  scratch_.Write("b/train-labels-idx1-ubyte.gz", Gzip(labels));
  // One of the two was decompressed.
  const std::string mixed = scratch_.Write("c/images-idx3-ubyte.gz", Gzip(images));
  scratch_.Write("c/labels-idx1-ubyte", labels);
  const std::string other = scratch_.Write("d/images-idx3-ubyte", images);
  scratch_.Write("d/labels-idx1-ubyte.gz", Gzip(labels));
  std::vector<int64_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  const Batch expected = OpenIdx({scratch_.Path("a/images-idx3")}, {})->Get(all);
  for (const std::string& path : {packed, mixed, other}) {
    const Batch batch = OpenIdx({path}, {})->Get(all);
    EXPECT_TRUE(at::equal(batch.inputs, expected.inputs)) << path;
    EXPECT_TRUE(at::equal(batch.targets, expected.targets)) << path;
  }
}

TEST_F(Gzipped, IdxHeadersAskForNoMemory) {
  const std::string huge = std::string("\0\0\x8\x3", 4) + std::string(12, '\xff') + "abc";
  const std::string path = scratch_.Write("images-idx3.gz", Gzip(huge));
  EXPECT_THAT(ErrorOf([&] { OpenIdx({path}, {}); }).what,
              AllOf(HasSubstr(path), HasSubstr("announces"), HasSubstr("3 follow")));
}

TEST_F(Gzipped, TablesAndTextsAreReadAsTheyWouldBePlain) {
  const CsvDataset table(
      {.files = {scratch_.Write("t.csv.gz", Gzip("x,kind\n1,a\n2,b\n"))}, .target = "kind"});
  EXPECT_THAT(table.shape().labels, ElementsAre("a", "b"));
  BadRows bad_rows(false);
  const std::string row = "{\"sentence\": \"good\", \"label\": \"yes\"}\n";
  scratch_.Write("t.jsonl.gz", Gzip(row));
  scratch_.Write("t.tsv.gz", Gzip("sentence\tlabel\nbad\tno\n"));
  const LabelledTexts texts =
      LabelledTexts::Read({scratch_.Path("t.jsonl.gz"), scratch_.Path("t.tsv.gz")}, {}, bad_rows);
  EXPECT_EQ(texts.first(0), "good");
  EXPECT_EQ(texts.first(1), "bad");
  EXPECT_THAT(texts.label_names(), ElementsAre("no", "yes"));
}

TEST_F(Gzipped, DocumentsComeInPiecesThatMakeUpTheWhole) {
  const std::string text = Lines(3000);
  const std::string packed = Gzip(text);
  const std::string plain = scratch_.Write("a.txt", text);
  const std::string compressed = scratch_.Write("b.txt.gz", packed);
  DocumentReader reader(
      {.files = {compressed, plain}, .is_rows = {true, false}, .piece_bytes = 1000});
  std::string read;
  std::vector<size_t> files;
  for (TextPiece piece; reader.Next(piece);) {
    read += piece.text;
    files.push_back(piece.file);
  }
  EXPECT_EQ(read, text + text);
  EXPECT_GT(std::count(files.begin(), files.end(), 0), 10);
  EXPECT_EQ(reader.bytes_read(), static_cast<int64_t>(packed.size() + text.size()));
  scratch_.Write("b.txt.gz", packed.substr(0, packed.size() / 2));
  DocumentReader cut_off({.files = {compressed}, .is_rows = {true}});
  TextPiece piece;
  EXPECT_THAT(ErrorOf([&] { cut_off.Next(piece); }).what,
              AllOf(HasSubstr(compressed), HasSubstr("cut off at byte")));
}

TEST_F(Gzipped, FilesThatWouldBeMappedAreRefused) {
  const std::string text = scratch_.Write("a.txt.gz", Gzip(Lines(100)));
  EXPECT_THAT(ErrorOf([&] { TextDataset({.files = {text}}); }).hint,
              "Decompress it: gunzip " + text);
  const std::string ids = scratch_.Write("a.bin.gz", Gzip(Lines(100)));
  EXPECT_THAT(ErrorOf([&] { TokenDataset({.files = {ids}}); }).what,
              HasSubstr("compressed by gzip"));
  // Ids may be what gzip's files begin with.
  std::string tokens = "\x1f\x8b\x08";
  tokens.resize(1000);
  EXPECT_EQ(TokenDataset({.files = {scratch_.Write("b.bin", tokens)}}).tokens(), 500);
}

}  // namespace
}  // namespace ddprun::trainer
